"""The forms of two operations, of a CPU and of other platforms: the same numbers, and those of NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto.digest import POINTS, digest
from fedjax_priv.crypto.key_agreement import public_key
from fedjax_priv.layers.secure_sum import bitmap, bound_masks
from fedjax_priv.layers.secure_sum.bound_masks import Extent

SHAPES = {
    "few of many": (1000, 150, 0.1),
    "all": (33, 33, 1.0),
    "none": (64, 10, 0.0),
    "more than there is room for": (200, 20, 0.5),
    "less than a word": (7, 5, 0.5),
}


def drawn(d, most, share):
    rng = np.random.default_rng(0)
    chosen, words = rng.random((3, d)) < share, rng.integers(1, 2**32, (3, most), np.uint32)
    return Extent(d, most), jax.vmap(bitmap.pack)(jnp.asarray(chosen)), jnp.asarray(words), chosen


def in_order(chosen):
    """Coordinates that are sent, as ranks count them: the first bits of all words, then the second ones."""
    width = -(-len(chosen) // 32)
    return sorted(np.flatnonzero(chosen).tolist(), key=lambda c: (c % width, c // width))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_places_are_the_coordinates_in_the_order_of_their_words(shape):
    extent, bitmaps, _, chosen = drawn(*shape)
    d, most, _ = shape
    expected = [(in_order(row) + [d] * most)[:most] for row in chosen]
    for form in (bound_masks._searched, bound_masks._scattered):
        assert jax.jit(jax.vmap(functools.partial(form, extent)))(bitmaps).tolist() == expected


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_coordinate_that_is_sent_has_a_word(shape):
    """Beyond the room the last word again: nothing is ever sent in the clear."""
    extent, bitmaps, words, chosen = drawn(*shape)
    expected = np.zeros((3, extent.num_values), np.uint32)
    for row, of, own in zip(expected, chosen, np.asarray(words), strict=True):
        for rank, coordinate in enumerate(in_order(of)):
            row[coordinate] = own[min(rank, extent.most - 1)]
    for form in (bound_masks._put, bound_masks._taken):
        assert (jax.jit(functools.partial(form, extent))(words, bitmaps) == expected).all()


seeds_of_clients, seeds_of_members = (
    jax.jit(f, static_argnums=0) for f in (bound_masks.seeds_of_clients, bound_masks.seeds_of_members)
)
public_keys = jax.jit(public_key)


@pytest.mark.parametrize("place", [0, 1])
def test_seeds_differ_if_bitmaps_differ_in_either_word_of_the_digest(place):
    """Two bitmaps of 64 coordinates that agree at the other point: words 1, w and 0, w + p modulo q."""
    p = int(POINTS[1 - place])
    bitmaps = np.array([[1, 7], [0, 7 + p]], np.uint32)
    low = np.asarray(jax.jit(jax.vmap(digest))(bitmaps))
    assert low[0, 1 - place] == low[1, 1 - place] and low[0, place] != low[1, place]
    key = np.tile(np.array([3, 5], np.uint32), (2, 1))
    seeds = np.asarray(seeds_of_clients(Extent(64, 64), key, public_keys(key[:1]), bitmaps))
    assert (seeds[0] != seeds[1]).all()


def test_members_and_clients_have_the_same_seeds_and_two_members_not_one_for_each_other():
    secret = np.arange(8, dtype=np.uint32).reshape(4, 2) * np.uint32(12_345) + np.uint32(1)
    public, same = np.asarray(public_keys(secret)), np.ones((4, 1), np.uint32)
    mine = np.asarray(seeds_of_clients(Extent(9, 9), secret, public[1:], same))
    assert (mine == np.asarray(seeds_of_members(Extent(9, 9), secret[1:], public, same))).all()
    assert len(np.unique(mine.reshape(-1, 2), axis=0)) == 4 * 3

"""The digest of a model, against integers of Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto.digest import POINTS, WIDTH, digest, model_digest
from helpers import Q


def by_hand(words):
    total = [0, 0]
    for word in words.tolist():
        total = [(before * int(point) + word) % Q for before, point in zip(total, POINTS, strict=True)]
    return total


@pytest.mark.parametrize("d", [1, WIDTH - 1, WIDTH, 2 * WIDTH + 5])
def test_it_is_both_polynomials(d):
    words = np.random.default_rng(d).integers(0, 2**32, d, dtype=np.uint32)
    words[-1] = 2**32 - 1  # outside the field
    assert jax.jit(digest)(jnp.asarray(words)).tolist() == by_hand(words)


def test_a_model_is_hashed_by_the_bits_of_all_its_numbers():
    model = {"b": jnp.array([0.5, -2.0]), "a": jnp.array([[3.0], [1e-30]])}
    words = np.array([3.0, 1e-30, 0.5, -2.0], np.float32).view(np.uint32)
    hashed = jax.jit(model_digest)
    assert hashed(model).tolist() == by_hand(words)
    seen = {tuple(hashed(model).tolist())}
    for name, row in (("b", 0), ("b", 1), ("a", 0), ("a", 1)):
        other = jnp.nextafter(model[name][row], jnp.float32(9))
        seen.add(tuple(hashed(model | {name: model[name].at[row].set(other)}).tolist()))
    assert len(seen) == 5


def test_the_points_are_elements_of_large_order():
    """No power below q - 1 over a prime factor is 1, so no two places of a model have the same weight."""
    for point in POINTS.tolist():
        assert all(pow(point, (Q - 1) // prime, Q) != 1 for prime in (2, 5, 19, 22605091))


def test_words_chosen_to_agree_at_one_point_differ_at_the_other():
    """The last two words by which a polynomial is zero at the first point."""
    one, other = (jax.jit(digest)(jnp.array([5, last], jnp.uint32)) for last in (0, -5 * int(POINTS[0]) % Q))
    assert len(np.unique(POINTS)) == 2 and other[0] == 0 != other[1] and one[1] != other[1]

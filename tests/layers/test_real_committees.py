"""Committees, codes and enrolments with ChaCha20 and, where they agree on keys, X25519: the sums in the clear."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto import lattice
from fedjax_priv.crypto.prg import chacha20, philox
from fedjax_priv.layers import (
    coded_masks,
    committee_masks,
    enrolled_masks,
    one_shot_masks,
    plain_sparse_field,
    stack,
    stateless,
    thresholded_masks,
)
from fedjax_priv.layers.sparsification import Sparse
from fedjax_priv.testing import layer_round
from helpers import QUICK, Q, cohort_of, refuses, survivors, uniform

pytest.importorskip("cryptography")
REAL = {"key_agreement": "x25519", "prg": "chacha20"}
N, D, SPACING = 5, 1024, 211
KEY, WHO = jax.random.key(8), cohort_of(5, round=3)
MOST = (Q // 2 - SPACING) // SPACING // N
SIGNED = np.random.default_rng(0).integers(-MOST, MOST + 1, (N, D))
X = (SIGNED % Q).astype(np.uint32)


def thresholded(**how):
    """All clients send all coordinates."""
    everywhere = stateless(lambda key, x, who: Sparse(x, jnp.broadcast_to(jnp.arange(D), x.shape)))
    masks = thresholded_masks(
        plain_sparse_field(D), num_values=D, group_size=N, threshold=2, committee=4, quorum=2, **how
    )
    return stack(all=everywhere, mask=masks)


LAYERS = {
    "coded": functools.partial(coded_masks, num_values=D, group_size=N, colluders=1, lost=2),
    "one_shot": functools.partial(one_shot_masks, group_size=N, spacing=SPACING, committee=4, threshold=2, length=4),
    "thresholded": thresholded,
    "enrolled": functools.partial(enrolled_masks, group_size=N),
    "committee": functools.partial(committee_masks, group_size=N, committee=4, threshold=2),
}
HOW = {name: REAL if name in ("thresholded", "enrolled", "committee") else {"prg": "chacha20"} for name in LAYERS}


@functools.cache
def program(name):
    layer = LAYERS[name](**HOW[name])
    return jax.jit(
        lambda alive, online: layer_round(layer, KEY, jnp.asarray(X), WHO, alive, online), compiler_options=QUICK
    )


def play(name, lost=(), gone=()):
    alive = survivors(N, lost)
    return program(name)(alive, alive & survivors(N, gone))


@pytest.mark.parametrize("name", LAYERS)
def test_sums_are_those_in_the_clear(name):
    """With a client that is lost, and one that does not answer; of an enrolment it would fail the round."""
    for lost, gone in (((), ()), ((3,), () if name == "enrolled" else (0,))):
        outcome = play(name, lost, gone)
        received = outcome["received"]
        assert int(received.count[0]) == N - len(lost) and not np.any(np.asarray(received.status))
        assert np.asarray(received.value)[0].tolist() == (np.delete(SIGNED, lost, 0).sum(0) % Q).tolist()
        assert uniform(np.asarray(outcome["upload"])[1], bits=4)


@pytest.mark.parametrize("name", LAYERS)
def test_every_word_is_of_the_cipher(name):
    """In the program of a round; with the default, every word is of Philox."""
    used = lambda traced: {word for word in ("chacha20", "philox4x32") if f"name={word}" in str(traced.jaxpr)}
    assert used(program(name).trace(survivors(N), survivors(N))) == {"chacha20"}
    simulated = jax.jit(functools.partial(layer_round, LAYERS[name]()))
    assert used(simulated.trace(KEY, X, WHO, survivors(N), survivors(N))) == {"philox4x32"}


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "committee"])
def test_all_secrets_have_256_bits_and_messages_say_so(name):
    """Messages of a code or a sum of secrets are no longer; those of committee masks are in test_committee_mask.py."""
    found = play(name, (3,))
    assert {a.shape[-1] for a in jax.tree.leaves(found["private"]) if a.ndim == 2} == {8}
    up = {phase: int(link.up.sum()) for phase, link in found["bits"].items()}
    sent = np.broadcast_to(np.asarray(found["sent"].bits), N).tolist()
    if name == "thresholded":  # 4 members, of whom clients share 16 shares; members that are gone need them opened
        gone = int((~found["header"]["mask"].answered).sum())
        opened = 32 * D + 256 * gone * (N - 1)
        assert sent == [33 * D + 16 * 256] * N and up == {"committee": N * 256, "unmask": (4 - gone) * opened}
    elif name == "enrolled":
        assert sent == [32 * D] * N and up["unmask"] == (N - 1) * 256
        opened = np.asarray(found["header"].keys)[[0, 1, 2, 4], 3]  # of the round, for the lost client
        assert len(np.unique(opened)) == opened.size == (N - 1) * 8
    elif name == "one_shot":  # shares of 4 numbers, and a commitment
        assert sent == [32 * D + 4 * 4 * 32 + 64] * N
        assert up == {"unmask": 4 * 32 * int(found["header"].sent.sum())}
    else:  # of two pieces of a mask
        assert sent == [32 * D] * N
        assert up == {"advertise": N * 64, "share": N * (N - 1) * 32 * D // 2, "unmask": (N - 1) * 32 * D // 2}


def test_half_of_a_seed_is_not_enough():
    """Each of its eight words counts: masks of clients whose seeds differ in one have nothing in common."""
    from fedjax_priv.layers.coded_mask import _masks, code_of

    code = code_of(D, N, 1, 2, None, prg="chacha20")
    seeds = jnp.asarray(np.arange(8)[None] + np.concatenate([np.zeros((1, 8), int), np.eye(8, dtype=int)]), jnp.uint32)
    masks = np.asarray(jax.jit(lambda seeds: _masks(code, seeds, jnp.int32(0)), compiler_options=QUICK)(seeds))
    assert all((masks[0] != row).mean() > 0.99 for row in masks[1:])


def test_no_band_of_the_public_matrix_repeats_another():
    """In other rounds and for other generators it is another matrix."""
    which = (0, 0, chacha20), (0, 1, chacha20), (1, 0, chacha20), (0, 0, philox)

    @jax.jit
    def all_bands():
        return [lattice.public_matrix(jnp.int32(round), part, 4, prg) for round, part, prg in which]

    bands = all_bands()
    words = np.stack(bands).reshape(4, -1)
    assert len(np.unique(words)) > words.size - 10


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: enrolled_masks(group_size=4, key_agreement="x25519"), "prg must be 'chacha20' with key_agreement"),
    (lambda: thresholded(key_agreement="x25519", prg=philox), "prg must be 'chacha20' with key_agreement"),
)

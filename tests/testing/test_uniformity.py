"""The test of views finds any number that is not masked, or not by a mask of its own; and uniform views pass it."""

import numpy as np
import pytest

from fedjax_priv.crypto.modulus import FIELD, ring
from fedjax_priv.testing.uniformity import are_uniform

VIEWS, N, D = 60, 7, 33


def masks(modulus, seed=0):
    return np.random.default_rng(seed).integers(0, modulus.size, (VIEWS, N, D))


def masked(mask, modulus=FIELD):
    """Updates, the same in all views, behind masks."""
    return (np.random.default_rng(9).integers(0, modulus.size, (N, D)) + mask) % modulus.size


def only(n, d):
    """All numbers but those of a client, or of a coordinate."""
    kept = np.ones((N, D), int)
    kept[n, d] = 0
    return kept


EVERYTHING = np.ones((VIEWS, N, D), bool)
SOME = np.random.default_rng(1).random((VIEWS, N, D)) < 0.3
M = masks(FIELD)


@pytest.mark.parametrize("sent", [EVERYTHING, SOME])
@pytest.mark.parametrize("modulus", [FIELD, ring(2), ring(3), ring(10), ring(32)])
def test_masked_updates_pass(modulus, sent):
    assert all(are_uniform(masked(masks(modulus, seed), modulus), sent, modulus) for seed in range(5))


def test_masks_that_cancel_in_a_ring_pass():
    """Those of three pairs and of one client alone: the difference within a pair is even."""
    mask = masks(ring(10))
    mask[:, 1:6:2] = -mask[:, 0:6:2]
    assert are_uniform(masked(mask, ring(10)), EVERYTHING, ring(10))


@pytest.mark.parametrize(
    "mask",
    [
        0 * M, M % 2**30, M >> 16 << 16, M >> 4 << 4, M & ~0xF00, np.float32(M).astype(np.int64),
        M * only(0, slice(None)), M * only(N - 1, slice(None)), M * only(slice(None), 5), M * only(3, 5),
        M - (M >> 16 << 16) * (1 - only(3, 5)),
        M[:1] + 0 * M, M[:, :1] + 0 * M, M[:, :, :1] + 0 * M,
    ],
    ids=[
        "none", "30 bits", "high half", "all but 4 bits", "a hole", "made of floats",
        "not client 0", "not the last", "not a coordinate", "not a number", "half a number",
        "every time", "every client", "every coordinate",
    ],
)  # fmt: skip
def test_what_is_in_the_clear_is_found(mask):
    assert not are_uniform(masked(mask), EVERYTHING, FIELD)


def test_no_number_that_is_sent_says_nothing():
    assert are_uniform(0 * M, EVERYTHING & False, FIELD)

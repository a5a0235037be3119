"""A statistical test of what one draw after another sends: is every number uniform, whoever sends it and where?"""

import numpy as np
from jaxtyping import Bool, Float, Shaped
from scipy import stats

from fedjax_priv.crypto.modulus import Modulus

ERROR = 1e-6
"""Probability that views which are uniform fail the test, divided among all that it compares."""
_DIGIT = 4
"""Bits of a number that are counted at a time: all of its bits, four by four."""


def are_uniform(views: Shaped[np.ndarray, "v n d"], sent: Bool[np.ndarray, "v n d"], modulus: Modulus) -> bool:
    """Whether views are uniform in a modulus: each coordinate of each client, and its differences to its neighbours.

    Differences are those to the next client and to the next coordinate: what is masked alike has them in the clear.

    Args:
      views: elements of `modulus`, of v independent draws of n clients.
      sent: which of them each client sends; the others are left out.
    """
    words = views.astype(np.int64)
    by_client = (words - np.roll(words, 1, axis=1)) % modulus.size
    by_coordinate = np.diff(words, axis=2) % modulus.size
    even = 1 - modulus.size % 2  # two clients that share one mask differ by twice that: its lowest bit is known
    chances = np.concatenate([
        *_chances(words, sent, modulus.bits),
        *_chances(by_client >> even, sent & np.roll(sent, 1, axis=1), modulus.bits - even),
        *_chances(by_coordinate, sent[..., 1:] & sent[..., :-1], modulus.bits),
    ])  # fmt: skip
    return bool(chances.min() > ERROR / chances.size)


def _chances(words: np.ndarray, sent: np.ndarray, bits: int) -> list[Float[np.ndarray, " tests"]]:
    """For each digit, the chance of what is found in each place, and in the places of each client together."""
    width = min(_DIGIT, bits)
    shifts = sorted({*range(0, bits - width + 1, width), bits - width})
    found = []
    for shift in shifts:
        digit = (words >> shift) % 2**width
        counts = np.stack([((digit == value) & sent).sum(0) for value in range(2**width)], -1)  # [n, d, values]
        trials = counts.sum(-1)
        often = 2**width * stats.binom.sf(counts.max(-1) - 1, trials, 2.0**-width)  # any value as often as the largest
        pooled = counts.sum(1)
        some = pooled[pooled.sum(1) > 0]
        found += [often.ravel(), stats.chisquare(some, axis=1).pvalue]
    return found

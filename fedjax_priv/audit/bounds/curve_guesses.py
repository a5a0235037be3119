"""Mu from one run with many canaries, by the whole trade-off curve (Mahloujifar, Melis and Chaudhuri 2024)."""

from collections.abc import Callable

from scipy.special import ndtr, ndtri

from fedjax_priv.theory import gaussian

_LARGEST, _PRECISION = 20.0, 1e-6
"""The largest mu that is tried, and the precision of mu."""


def refuted(
    right: int, guesses: int, canaries: int, inverse_blow_up: Callable[[float], float], confidence: float
) -> bool:
    """Whether the number of right guesses contradicts a trade-off curve f (their Algorithm 3).

    Args:
      right: the number of right guesses.
      guesses: r, the number of guesses.
      canaries: m, each included by its own fair coin.
      inverse_blow_up: `x -> f(1 - x)` for a symmetric f: if an event has probability x under one input, this is its
        least probability under the other.
      confidence: in (0, 1).
    """
    error = 1 - confidence
    r, w = error * right / canaries, error * (guesses - right) / canaries
    for i in range(right - 1, -1, -1):
        more = max(w, inverse_blow_up(r))
        r, step = min(1.0, r + i / (guesses - i) * (more - w)), more - w
        w = more
        if step == 0:
            break
    return r + w > guesses / canaries


def gaussian_mu(right: int, guesses: int, canaries: int, confidence: float) -> float:
    """The largest mu whose Gaussian trade-off curve is refuted; 0 if none is refuted."""
    out = lambda mu: refuted(right, guesses, canaries, lambda x: float(ndtr(ndtri(x) - mu)), confidence)
    low, high = 0.0, _LARGEST
    if not out(low):
        return 0.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if out(middle) else (low, middle)
    return low


def gaussian_epsilon(right: int, guesses: int, canaries: int, delta: float, confidence: float) -> float:
    """Eps at `delta` of the Gaussian mechanism with the mu of `gaussian_mu`."""
    return float(gaussian.epsilon(delta, gaussian_mu(right, guesses, canaries, confidence)))

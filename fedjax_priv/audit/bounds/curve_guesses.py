"""Mu from one run with many canaries: all of a trade-off curve counts (Mahloujifar, Melis and Chaudhuri 2024)."""

from collections.abc import Callable

from scipy.special import ndtr, ndtri

from fedjax_priv.theory import gaussian

_LARGEST, _PRECISION = 20.0, 1e-6
"""Of mu."""


def refuted(
    right: int, guesses: int, canaries: int, inverse_blow_up: Callable[[float], float], confidence: float
) -> bool:
    """Whether so many right guesses contradict a trade-off curve f (their Algorithm 3).

    Args:
      right: v of the r guesses.
      guesses: r.
      canaries: m, each in by its own fair coin.
      inverse_blow_up: `x -> f(1 - x)` of a symmetric f: the least probability under one input of what has probability x
        under the other.
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
    """The largest mu whose Gaussian curve is refuted; 0 if none is."""
    out = lambda mu: refuted(right, guesses, canaries, lambda x: float(ndtr(ndtri(x) - mu)), confidence)
    low, high = 0.0, _LARGEST
    if not out(low):
        return 0.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if out(middle) else (low, middle)
    return low


def gaussian_epsilon(right: int, guesses: int, canaries: int, delta: float, confidence: float) -> float:
    """Eps of the Gaussian mechanism with that mu."""
    return float(gaussian.epsilon(delta, gaussian_mu(right, guesses, canaries, confidence)))

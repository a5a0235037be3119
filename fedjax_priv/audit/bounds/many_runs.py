"""Eps from many runs on each of two adjacent inputs, and a test of a claim."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_priv import _validate
from fedjax_priv.audit.bounds import gaussian_curve, one_event
from fedjax_priv.audit.bounds.guessing import Errors, count_errors, no_errors

NEVER = 2**60
"""Stands for more runs than anybody can make."""


class LowerBound(NamedTuple):
    """Eps is at least this, with this confidence, at this delta."""

    epsilon: float
    delta: float
    confidence: float
    why: str  # what was counted
    limit: float  # the largest eps that so many runs or guesses could have shown


class Comparison(NamedTuple):
    """Whether runs contradict a claim, and how many runs could."""

    contradicted: bool
    needed: int  # 0 if so many runs could contradict the claim; else how many on each input could; or `NEVER`


def two_worlds(
    first: np.ndarray,
    second: np.ndarray,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    gaussian: bool = False,
) -> LowerBound:
    """A lower bound on eps from the scores of many runs on each of two adjacent inputs.

    Half of the runs choose a test, `score > t` or its complement, on one of the s coordinates of the scores. The other
    half count its errors, and Clopper-Pearson intervals bound the error rates.

    Args:
      first: `[k]` or `[k, s]`, scores of runs on the first input, at least 4, finite.
      second: `[l]` or `[l, s]`, scores of runs on the second input, at least 4, finite.
      delta: in [0, 1); above 0 if `gaussian`, since a Gaussian mechanism has infinite eps at 0.
      confidence: of the bound, in (0, 1).
      gaussian: whether the mechanism is a Gaussian one without sampling. The bound is then much larger, and holds for
        no other mechanism.

    Raises:
      ValueError: an argument outside its range.

    Examples:
      >>> rng = np.random.default_rng(0)
      >>> bound = two_worlds(rng.normal(0, 1, 1000), rng.normal(1, 1, 1000), delta=1e-5)  # mu = 1: eps is 4.4
      >>> print(round(float(bound.epsilon), 1))
      1.0
    """
    check_levels(delta, confidence, gaussian)
    epsilon = (gaussian_curve if gaussian else one_event).epsilon
    choose = gaussian_curve.mu if gaussian else functools.partial(one_event.log_ratio, delta=delta)
    errors = count_errors(first, second, choose)
    most = no_errors(len(first), len(second))
    found, limit = (float(epsilon(*each.rates(confidence), delta)) for each in (errors, most))
    return LowerBound(found, delta, confidence, str(errors), limit)


def compare(
    first: np.ndarray,
    second: np.ndarray,
    claim: Sequence[tuple[float, float]],
    *,
    confidence: float = 0.95,
    gaussian: bool = False,
) -> Comparison:
    """Tests a claim of one or more pairs (eps, delta), all at once: together they are a trade-off curve.

    Args:
      first: as in `two_worlds`.
      second: as in `two_worlds`.
      claim: pairs (eps, delta) that are all claimed to hold; eps >= 0, delta in [0, 1).
      confidence: of a contradiction, in (0, 1).
      gaussian: as in `two_worlds`.

    Raises:
      ValueError: an argument outside its range.

    Examples:
      >>> rng = np.random.default_rng(0)
      >>> found = compare(rng.normal(0, 1, 1000), rng.normal(3, 1, 1000), [(0.5, 1e-5)])
      >>> print(found)
      Comparison(contradicted=True, needed=0)
    """
    eps, deltas = _pairs(claim)
    for delta in deltas:
        check_levels(float(delta), confidence)
    excess = functools.partial((gaussian_curve if gaussian else one_event).excess, epsilons=eps, deltas=deltas)
    errors = count_errors(first, second, gaussian_curve.mu if gaussian else excess)
    contradicts = lambda errors: bool(excess(*errors.rates(confidence)) > 0)
    return Comparison(contradicts(errors), _needed(contradicts, len(first), len(second)))


def _pairs(claim: Any) -> tuple[np.ndarray, np.ndarray]:
    """All eps, and all delta."""
    try:
        pairs = np.array(claim, np.float64)
    except (TypeError, ValueError):  # not numbers, or of several lengths
        pairs = np.empty((0, 2))
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs) or not (pairs[:, 0] >= 0).all():
        raise ValueError(f"claim must be pairs (eps, delta) with eps >= 0, got {claim!r}")
    return pairs[:, 0], pairs[:, 1]


def _needed(contradicts: Callable[[Errors], bool], first: int, second: int) -> int:
    """The number of runs that could contradict the claim, at most 1% above the least; 0 if the given runs could."""
    if contradicts(no_errors(first, second)):
        return 0
    low = high = 4
    while not contradicts(no_errors(high, high)):
        low, high = high, 2 * high
        if high > NEVER:
            return NEVER
    while high - low > max(2, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if contradicts(no_errors(middle, middle)) else (middle, high)
    return high


def check_levels(delta: float, confidence: float, gaussian: bool = False) -> None:
    """Raises ValueError unless delta is in [0, 1), or in (0, 1) if `gaussian`, and confidence in (0, 1)."""
    _validate.one_of((True, False), gaussian=gaussian)
    _validate.fraction(below_one=True, above_zero=bool(gaussian), delta=delta)
    _validate.fraction(below_one=True, above_zero=True, confidence=confidence)

"""A test that guesses which of two inputs was there, from a score: half of the runs choose it, the others count errors.

Errors under either input bound what no test of a private mechanism can do. A statistic of both error rates says how
much that is.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

Rate = float | np.ndarray
Statistic = Callable[[Rate, Rate], Rate]
"""`(alpha, beta) -> value` falls in the rates of false alarms (the second input is taken for the first) and misses."""
_MARGIN = 3.0
"""Standard deviations that error rates are raised by where the best of many tests is chosen: fewer fall for luck."""

_TAIL = 500
FEWEST = 4
"""Scores of each input that a bound needs."""


class Errors(NamedTuple):
    """Of a test on runs that did not choose it."""

    false_alarms: int
    second: int  # runs on the second input
    misses: int
    first: int

    def __str__(self) -> str:
        return f"{self.false_alarms} of {self.second} and {self.misses} of {self.first} runs guessed wrong"

    def rates(self, confidence: float) -> tuple[float, float]:
        """Both rates are at most these, with this confidence for both together (Clopper and Pearson)."""
        return (
            _upper_end(self.false_alarms, self.second, (1 - confidence) / 2),
            _upper_end(self.misses, self.first, (1 - confidence) / 2),
        )


class _Test(NamedTuple):
    """Guesses the first input where a coordinate of the score is on one side of a threshold."""

    coordinate: int
    threshold: float
    above: bool

    def errors(self, first: np.ndarray, second: np.ndarray) -> Errors:
        guessed = lambda scores: (scores[:, self.coordinate] > self.threshold) == self.above
        return Errors(int(guessed(second).sum()), len(second), int((~guessed(first)).sum()), len(first))


def count_errors(first: np.ndarray, second: np.ndarray, statistic: Statistic) -> Errors:
    """Of the test for which a statistic is largest.

    Args:
      first: `[k]` or `[k, s]`, at least 4 scores, finite.
      second: `[l]` or `[l, s]`, of the other input.
      statistic: vectorised.

    Raises:
      ValueError: scores of another shape, or not finite; a statistic that is not a number.
    """
    first, second = checked_scores(1, 2, first=first), checked_scores(1, 2, second=second)
    first, second = first.reshape(len(first), -1), second.reshape(len(second), -1)
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"second must have {first.shape[1]} scores a run, as first has, got {second.shape[1]}")
    return _best_test(first[::2], second[::2], statistic).errors(first[1::2], second[1::2])


def no_errors(first: int, second: int) -> Errors:
    """The best that can come of so many runs on each input."""
    return Errors(0, second // 2, 0, first // 2)


def _best_test(first: np.ndarray, second: np.ndarray, statistic: Statistic) -> _Test:
    best, found = -np.inf, _Test(0, 0.0, True)
    for coordinate, (one, other) in enumerate(zip(first.T, second.T, strict=True)):
        places = _places(np.unique(np.concatenate([one, other])))
        alarms = 1 - np.searchsorted(np.sort(other), places, side="right") / len(other)
        misses = np.searchsorted(np.sort(one), places, side="right") / len(one)
        for above in (True, False):
            rates = (alarms, misses) if above else (1 - alarms, 1 - misses)
            raised = (_raised(rate, len(runs)) for rate, runs in zip(rates, (other, one), strict=True))
            value = np.asarray(statistic(*raised))
            if np.isnan(value).any():
                raise ValueError("statistic must be a number at all error rates in (0, 1], got nan")
            place = int(np.argmax(value))
            if value[place] > best:
                best, found = value[place], _Test(coordinate, float(places[place]), above)
    return found


def _places(scores: np.ndarray) -> np.ndarray:
    """Thresholds to try: all in the tails, some in between."""
    if scores.size <= 4 * _TAIL:
        return scores
    middle = np.linspace(_TAIL, scores.size - _TAIL - 1, 2 * _TAIL).astype(int)
    return np.concatenate([scores[:_TAIL], scores[middle], scores[-_TAIL:]])


def _raised(rate: np.ndarray, runs: int) -> np.ndarray:
    """Wilson's upper end; of a rate of 1 it may round to more than 1, of which no statistic is a number."""
    square = _MARGIN**2 / runs
    upper = (rate + square / 2 + np.sqrt(square * rate * (1 - rate) + square**2 / 4)) / (1 + square)
    return np.minimum(upper, 1.0)


def _upper_end(errors: int, runs: int, level: float) -> float:
    return float(betaincinv(errors + 1, runs - errors, 1 - level)) if errors < runs else 1.0


def checked_scores(*axes: int, **named: np.ndarray) -> np.ndarray:
    """The one named argument as float64.

    Args:
      axes: numbers of axes that it may have.

    Raises:
      ValueError: fewer than 4 scores, one that is not finite, or another number of axes.
    """
    ((name, value),) = named.items()
    try:
        scores = np.asarray(value)
        if np.iscomplexobj(scores):
            raise ValueError(f"{scores.dtype} scores")
        scores = scores.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be at least 4 finite scores, got {error}") from error
    if scores.ndim not in axes or len(scores) < FEWEST or not scores.size:
        raise ValueError(f"{name} must be at least 4 finite scores, got {np.shape(value)}")
    if bad := int((~np.isfinite(scores)).sum()):
        raise ValueError(f"{name} must be at least 4 finite scores, got {bad} of {scores.size} that are not finite")
    return scores

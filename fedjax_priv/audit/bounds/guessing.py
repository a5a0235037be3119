"""A test that guesses from a score which of two inputs a run had: half of the runs choose it, the others count errors.

No test can have few errors on both inputs of a private mechanism. A statistic turns both error rates into a privacy
parameter.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from fedjax_priv import _validate

Rate = float | np.ndarray
Statistic = Callable[[Rate, Rate], Rate]
"""`(alpha, beta) -> value`, decreasing in both: alpha is the rate of false alarms (the second input is taken for the
first), beta the rate of misses."""
_MARGIN = 3.0
"""Error rates are raised by this many standard deviations while a test is chosen, so that luck chooses less often."""

_TAIL = 500
"""Scores in either tail of which each one is tried as a threshold."""
FEWEST = 4
"""A bound needs at least this many scores of each input."""
_MOST = 2**24
"""Trials have keys and scores in memory, and more of them take days."""


def check_trials(trials: int) -> None:
    """ValueError unless a bound can be made of so many trials, and they fit into memory."""
    if _validate.integer(at_least=FEWEST, trials=trials) > _MOST:
        raise ValueError(f"trials must be at most {_MOST}, got {trials}")


class Errors(NamedTuple):
    """Errors of a test, counted on runs that did not choose it."""

    false_alarms: int
    second: int  # runs on the second input
    misses: int
    first: int

    def __str__(self) -> str:
        return f"{self.false_alarms} of {self.second} and {self.misses} of {self.first} runs guessed wrong"

    def rates(self, confidence: float) -> tuple[float, float]:
        """Upper confidence bounds on both rates, which hold together with this confidence (Clopper and Pearson)."""
        return (
            _upper_end(self.false_alarms, self.second, (1 - confidence) / 2),
            _upper_end(self.misses, self.first, (1 - confidence) / 2),
        )


class _Test(NamedTuple):
    """Guesses the first input if one coordinate of the score is on one side of a threshold."""

    coordinate: int
    threshold: float
    above: bool

    def errors(self, first: np.ndarray, second: np.ndarray) -> Errors:
        guessed = lambda scores: (scores[:, self.coordinate] > self.threshold) == self.above
        return Errors(int(guessed(second).sum()), len(second), int((~guessed(first)).sum()), len(first))


def count_errors(first: np.ndarray, second: np.ndarray, statistic: Statistic) -> Errors:
    """The errors of the test with the largest statistic.

    Args:
      first: `[k]` or `[k, s]`, scores of runs on the first input, at least 4, finite.
      second: `[l]` or `[l, s]`, scores of runs on the second input, at least 4, finite.
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
    """The errors of a test that is never wrong, on so many runs on each input."""
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
    """Thresholds to try: all scores in the tails, some in between."""
    if scores.size <= 4 * _TAIL:
        return scores
    middle = np.linspace(_TAIL, scores.size - _TAIL - 1, 2 * _TAIL).astype(int)
    return np.concatenate([scores[:_TAIL], scores[middle], scores[-_TAIL:]])


def _raised(rate: np.ndarray, runs: int) -> np.ndarray:
    """Upper end of Wilson's interval, at most 1: a statistic of a rate that is rounded to above 1 would be nan."""
    square = _MARGIN**2 / runs
    upper = (rate + square / 2 + np.sqrt(square * rate * (1 - rate) + square**2 / 4)) / (1 + square)
    return np.minimum(upper, 1.0)


def _upper_end(errors: int, runs: int, level: float) -> float:
    return float(betaincinv(errors + 1, runs - errors, 1 - level)) if errors < runs else 1.0


def checked_scores(*axes: int, **named: np.ndarray) -> np.ndarray:
    """The one keyword argument as float64.

    Args:
      axes: how many axes the scores may have.

    Raises:
      ValueError: fewer than 4 scores, a score that is not finite, or another number of axes.
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

"""Eps from many runs on each of two adjacent inputs."""

from typing import NamedTuple

import numpy as np

from fedjax_priv import _validate
from fedjax_priv.audit.bounds.guessing import Rate, Statistic, count_errors, no_errors


class LowerBound(NamedTuple):
    """Eps is at least this, with this confidence, at this delta."""

    epsilon: float
    delta: float
    confidence: float
    why: str  # what was counted
    limit: float  # the largest eps that so many runs or guesses could have shown


def two_worlds(first: np.ndarray, second: np.ndarray, *, delta: float = 0.0, confidence: float = 0.95) -> LowerBound:
    """A bound from the scores of many runs on each of two adjacent inputs, whatever the mechanism.

    Half of the runs choose a test, `score > t` or its complement, at one coordinate if there are many, and the others
    count its errors. Of an (eps, delta)-private mechanism `P[E] <= e^eps P'[E] + delta`, and both are known up to
    Clopper and Pearson's intervals.

    Args:
      first: `[k]` or `[k, s]`, at least 4 scores, finite.
      second: `[l]` or `[l, s]`, of the other input.
      delta: in [0, 1).
      confidence: of the bound, in (0, 1).

    Raises:
      ValueError: an argument outside its range.
    """
    _validate.fraction(below_one=True, delta=delta)
    _validate.fraction(below_one=True, above_zero=True, confidence=confidence)
    statistic = one_event(delta)
    errors = count_errors(first, second, statistic)
    epsilon, limit = (
        float(statistic(*each.rates(confidence))) for each in (errors, no_errors(len(first), len(second)))
    )
    return LowerBound(epsilon, delta, confidence, str(errors), limit)


def one_event(delta: float) -> Statistic:
    """The least eps with which error rates agree: `1 - beta <= e^eps alpha + delta`, and with both exchanged."""

    def statistic(alpha: Rate, beta: Rate) -> Rate:
        return np.log(np.maximum(1.0, np.maximum((1 - beta - delta) / alpha, (1 - alpha - delta) / beta)))

    return statistic

"""From what an adversary saw to a lower bound on epsilon at a stated confidence.

A bound holds whatever the score: a poor one only makes it small. Where it exceeds a claim, the claim is false, up to
the confidence.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import betaincinv

from fedjax_priv import _validate

_MARGIN = 4.0
"""Standard deviations that counts are shrunk by where the best of many events is chosen: fewer fall for luck."""


class LowerBound(NamedTuple):
    """Eps is at least this, with this confidence, at this delta."""

    epsilon: float
    delta: float
    confidence: float
    why: str  # what was counted
    limit: float  # the largest eps that so many runs or guesses could have shown


class _Event(NamedTuple):
    """Scores on one side of a threshold, likelier in one world than in the other."""

    threshold: float
    above: bool
    in_first: bool

    def hits(self, first: np.ndarray, second: np.ndarray) -> tuple[int, int]:
        """In the world in which it is likelier, and in the other."""
        likelier, other = (first, second) if self.in_first else (second, first)
        count = lambda scores: int((scores > self.threshold if self.above else scores <= self.threshold).sum())
        return count(likelier), count(other)


def two_worlds(first: np.ndarray, second: np.ndarray, *, delta: float = 0.0, confidence: float = 0.95) -> LowerBound:
    """A bound from the scores of many runs on each of two adjacent inputs.

    Half of the runs choose the event, `P[score > t]` in either world or its complement, and the others are counted: of
    an (eps, delta)-private mechanism `P[E] <= e^eps P'[E] + delta`, and both are known up to Clopper and Pearson's
    intervals.

    Args:
      first: `[k]`, at least 4 scores, finite.
      second: `[l]`, of the other input.
      delta: in [0, 1).
      confidence: of the bound, in (0, 1).

    Raises:
      ValueError: an argument outside its range.
    """
    _check(delta, confidence)
    worlds = [_scores(first=first), _scores(second=second)]
    counted = [world[1::2] for world in worlds]
    event = _best_event(worlds[0][::2], worlds[1][::2], delta)
    hits, other = event.hits(counted[0], counted[1])
    sizes = [len(scores) for scores in (counted if event.in_first else counted[::-1])]
    epsilon, limit = (
        _two_worlds(found, sizes, delta, (1 - confidence) / 2) for found in ((hits, other), (sizes[0], 0))
    )
    return LowerBound(epsilon, delta, confidence, f"{hits} of {sizes[0]} against {other} of {sizes[1]} runs", limit)


def one_run(
    scores: np.ndarray, included: np.ndarray, *, guesses: int, delta: float = 0.0, confidence: float = 0.95
) -> LowerBound:
    """A bound from one run with many canaries, each included by a fair coin (Steinke, Nasr, Jagielski 2023, Thm. 5.2).

    The canaries with the highest scores are guessed to be in, those with the lowest to be out, half of the guesses
    each; the others are left open. Of r guesses about m canaries v are right with a probability of at most
    `P[Bin(r, e^eps / (1 + e^eps)) >= v]` and a term in `m delta`.

    Args:
      scores: `[m]`, higher where a canary seems to be in.
      included: bool `[m]`, the coins.
      guesses: r, an even number up to m, chosen before the scores are seen.
      delta: in [0, 1).
      confidence: of the bound, in (0, 1).

    Raises:
      ValueError: an argument outside its range.
    """
    _check(delta, confidence)
    _validate.integer(at_least=2, guesses=guesses)
    values, coins = _scores(scores=scores), np.asarray(included)
    if coins.dtype != bool or coins.shape != values.shape:
        raise ValueError(f"included must be a bool array of shape {values.shape}, got {coins.dtype} {coins.shape}")
    if guesses % 2 or guesses > values.size:
        raise ValueError(f"guesses must be an even number up to {values.size}, got {guesses}")
    order = np.argsort(values, kind="stable")
    half = guesses // 2
    right = int(coins[order[-half:]].sum() + (~coins[order[:half]]).sum())
    epsilon, limit = (_one_run(found, guesses, values.size, delta, confidence) for found in (right, guesses))
    return LowerBound(epsilon, delta, confidence, f"{right} of {guesses} guesses right", limit)


def one_run_p_value(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The largest probability of so many right guesses under (eps, delta): the algorithm of the same paper."""
    chance = 1 / (1 + np.exp(-epsilon))
    mass = np.cumsum(stats.binom.pmf(right - np.arange(1, right + 1), guesses, chance))
    most = float(np.max(mass / np.arange(1, right + 1), initial=0.0))
    return min(1.0, float(stats.binom.sf(right - 1, guesses, chance)) + 2 * canaries * delta * most)


def _two_worlds(hits: tuple[int, int], sizes: list[int], delta: float, level: float) -> float:
    low = float(betaincinv(hits[0], sizes[0] - hits[0] + 1, level)) if hits[0] else 0.0
    high = float(betaincinv(hits[1] + 1, sizes[1] - hits[1], 1 - level)) if hits[1] < sizes[1] else 1.0
    return max(0.0, float(np.log((low - delta) / high))) if low > delta else 0.0


def _one_run(right: int, guesses: int, canaries: int, delta: float, confidence: float) -> float:
    tried = np.linspace(0, 20, 20_001)
    fits = lambda eps: one_run_p_value(right, guesses, canaries, eps, delta) > 1 - confidence
    low, high = 0, tried.size - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(tried[middle]) else (middle + 1, high)
    return float(tried[max(low - 1, 0)])


def _check(delta: float, confidence: float) -> None:
    _validate.fraction(below_one=True, delta=delta)
    _validate.fraction(below_one=True, above_zero=True, confidence=confidence)


def _scores(**named: np.ndarray) -> np.ndarray:
    ((name, value),) = named.items()
    scores = np.asarray(value, np.float64)
    if scores.ndim != 1 or scores.size < 4 or not np.isfinite(scores).all():
        raise ValueError(f"{name} must be at least 4 finite scores, got {np.shape(value)}")
    return scores


def _best_event(first: np.ndarray, second: np.ndarray, delta: float) -> _Event:
    """The event whose counts, shrunk by what their chance may be, make the largest bound."""
    places = np.unique(np.concatenate([first, second]))
    best, found = -np.inf, _Event(places[0], True, True)
    below = [np.searchsorted(np.sort(scores), places, side="right") for scores in (first, second)]
    for above in (True, False):
        hits = [len(s) - b if above else b for s, b in zip((first, second), below, strict=True)]
        for in_first in (True, False):
            likelier, other = hits if in_first else hits[::-1]
            sizes = (len(first), len(second)) if in_first else (len(second), len(first))
            low = (likelier - _MARGIN * np.sqrt(likelier)) / sizes[0] - delta
            high = (other + _MARGIN * np.sqrt(other) + _MARGIN**2 / 2) / sizes[1]
            ratio = np.where(low > 0, low, 0) / high
            place = int(np.argmax(ratio))
            if ratio[place] > best:
                best, found = ratio[place], _Event(float(places[place]), above, in_first)
    return found

"""The verdict on a value that others print: reproduced, differs, better than printed, or not decided.

Comparisons among our own runs are in `comparison`: there runs of a seed start alike, and differences are paired. Here
they are not: the interval is Welch's, and a margin, set before running, says what a reader would call the same.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit  # scipy.stats takes a second to import

from experiments.claims import Claim, Open
from experiments.comparison import plus_minus
from fedjax_priv.analysis import half_width

_MOST = 1000  # seeds, in the search for how many would decide


class Printed(NamedTuple):
    """A value as others print it."""

    mean: float
    deviation: float | None = None  # of their runs, with n - 1; None: not printed, ours is taken
    runs: int = 1  # theirs; of a single one the deviation is ours

    @property
    def borrows(self) -> bool:
        """Whether their deviation is taken to be ours."""
        return self.deviation is None or self.runs == 1

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" +- {self.deviation:g}"
        return f"{self.mean:g}{spread} ({self.runs} run{'s' * (self.runs > 1)})"


class Compared(NamedTuple):
    """Our mean less the printed one, and what that decides."""

    apart: float
    half: float  # of Welch's 95% interval; infinite for one seed of ours
    verdict: bool | None
    why: Open  # where there is no verdict
    missing: str  # how many seeds of ours would decide, if none is reached

    @property
    def inside(self) -> bool:
        """Whether the interval of the difference holds 0; of one seed and of NaN nothing is known: false."""
        return abs(self.apart) <= self.half < math.inf


def compare(values: ArrayLike, printed: Printed, margin: float, *, better: int = 0) -> Compared:
    """The rule: "reproduced" if the means are at most `margin` apart and the interval is as narrow as that.

    "differs" if they are farther apart and the interval of the difference excludes 0, but "better than printed" if
    that is on the good side; else not decided.

    Args:
      values: of our runs, one per seed.
      printed: theirs.
      margin: what a reader would call the same, > 0.
      better: 1 if larger is better, -1 if smaller is, 0 if neither.
    """
    ours = np.asarray(values, np.float64)
    if not ours.size:
        return Compared(math.nan, math.nan, None, Open.UNDECIDED, "there is no run")
    if lost := int((~np.isfinite(ours)).sum()):
        return Compared(math.nan, math.nan, None, Open.UNDECIDED, f"{lost} of {ours.size} runs have no finite value")
    spread = float(ours.std(ddof=1)) if ours.size > 1 else math.nan
    theirs = None if printed.borrows else printed.deviation
    apart, half = float(ours.mean()) - printed.mean, welch(spread, ours.size, theirs, printed.runs)
    if abs(apart) <= margin and half <= margin:
        return Compared(apart, half, True, Open.UNDECIDED, "")
    if abs(apart) > margin and abs(apart) > half:
        good = better * apart > 0
        return Compared(apart, half, None if good else False, Open.BETTER if good else Open.UNDECIDED, "")
    return Compared(apart, half, None, Open.UNDECIDED, _missing(spread, theirs, printed.runs, max(margin, abs(apart))))


def welch(s1: float, n1: int, s2: float | None, n2: int) -> float:
    """Half of Welch's 95% interval for the difference of two means, from standard deviations with n - 1.

    If `s2` is None it is taken to be `s1`: only `n1 - 1` degrees of freedom are known then, as if `n2` is 1. They are
    not rounded otherwise. Infinite if `n1` is 1.
    """
    if n1 < 2:
        return math.inf
    v1, v2 = s1**2 / n1, (s1 if s2 is None else s2) ** 2 / n2
    known = v1 + v2 > 0 and n2 > 1 and s2 is not None
    degrees = (v1 + v2) ** 2 / (v1**2 / (n1 - 1) + v2**2 / (n2 - 1)) if known else n1 - 1
    return float(stdtrit(degrees, 0.975) * math.sqrt(v1 + v2))


def _missing(s1: float, s2: float | None, n2: int, width: float) -> str:
    """How many seeds of ours would make the interval as narrow as `width`, if their spread stays the same."""
    if math.isnan(s1):
        return "one seed is a demonstration"
    enough = (n1 for n1 in range(2, _MOST) if welch(s1, n1, s2, n2) <= width)
    number = next(enough, None)
    return f"about {number} seeds of ours would decide" if number else "no number of our seeds decides"


def claim(
    id: str, text: str, values: Sequence[float], printed: Printed, margin: float, *, unit: str = "", better: int = 0,
    control: str = "", differs: str | None = None,
) -> Claim:  # fmt: skip
    """A claim that a printed value is reproduced, with its intervals."""
    found = compare(values, printed, margin, better=better)
    rule = f"means at most {margin:g}{unit} apart, and Welch's 95% interval of the difference as narrow"
    if math.isnan(found.apart):
        known = ", ".join(f"{value:.2f}" for value in values if math.isfinite(value)) or "none"
        return Claim(
            id, text, str(printed), f"values of runs: {known}", None, rule, found.missing, why=found.why,
            differs=differs, control=control, margin=f"{margin:g}{unit}",
        )  # fmt: skip
    mean, own = float(np.mean(values)), float(half_width(values))
    seeds = f" ({len(values)} seeds)" if len(values) > 1 else ""  # a single one is named by its interval
    return Claim(
        id, text, str(printed), f"{mean:.2f}{plus_minus(own)}{seeds}, apart {found.apart:+.2f}{plus_minus(found.half)}",
        found.verdict, rule,
        note="; ".join(filter(None, [found.missing, "their deviation is taken to be ours" if printed.borrows else ""])),
        why=found.why, differs=differs, control=control, margin=f"{margin:g}{unit}",
    )  # fmt: skip


def of_other_data(claim: Claim) -> Claim:
    """Without a verdict: on other data than the source's a printed value is only something to look at."""
    return claim._replace(verdict=None, why=Open.NOT_RUN)


def rounds_to(target: float, rounds: ArrayLike, values: ArrayLike) -> float:
    """The round at which the best value so far reaches a target, between evaluations by linear interpolation.

    McMahan et al. 2017, section 3: "we make each curve monotonically improving by taking the best value over all prior
    rounds, then calculate the number of rounds where the curve crosses the target, using linear interpolation".

    Args:
      rounds: `[k]`, ascending.
      values: `[k]`; NaN is no value.

    Returns:
      Infinite if the target is never reached.

    Example:
      >>> print(rounds_to(0.97, [0, 10, 20, 30], [0.1, 0.96, 0.95, 0.98]))
      25.0
    """
    at, best = np.asarray(rounds, np.float64), np.fmax.accumulate(np.asarray(values, np.float64))
    reached = np.flatnonzero(best >= target)
    if not reached.size:
        return math.inf
    after = reached[0]
    if after == 0 or np.isnan(best[after - 1]):
        return float(at[after])
    part = (target - best[after - 1]) / (best[after] - best[after - 1])
    return float(at[after - 1] + part * (at[after] - at[after - 1]))

"""Roots of monotone functions."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fedjax_priv.theory._validate import Numbers, Result

FAR = 2.0**40
LARGEST_BUDGET = 1e6
"""The largest eps for which noise is searched: e^eps promises nothing long before, and figures of so little noise take
seconds each.
"""


def least(decreasing: Callable[[Numbers], Result], target: Numbers, high: Numbers) -> Result:
    """The least x in [0, high] with decreasing(x) <= target, to machine precision; `high` if there is none."""
    low, end = np.zeros(np.shape(target)), np.asarray(high, np.float64)
    for _ in range(80):
        middle = (low + end) / 2
        if ((middle == low) | (middle == end)).all():
            break
        above = decreasing(middle) > target
        low, end = np.where(above, middle, low), np.where(above, end, middle)
    return np.where(decreasing(np.zeros(np.shape(target))) <= target, 0, end)[()]


def unbounded_least(decreasing: Callable[[Numbers], Result], target: Numbers) -> Result:
    """The least x >= 0 with decreasing(x) <= target, to machine precision; infinite if there is none below `FAR`."""
    high = np.ones(np.shape(target))
    while (above := (decreasing(high) > target) & (high < FAR)).any():
        high = np.where(above, 2 * high, high)
    return np.where(decreasing(high) > target, np.inf, least(decreasing, target, high))[()]


def least_scale(decreasing: Callable[[float], float], target: float, close: float, start: float = 1.0) -> float:
    """An upper bound on the least x > 0 with decreasing(x) <= target, too large by at most the fraction `close`.

    Infinite if there is none below `FAR`; never below 1 / `FAR`. It makes few calls: use it for slow functions that
    fall about like a power of x where they are finite.
    """
    from scipy.optimize import brentq

    decreasing, high = functools.cache(decreasing), start
    while decreasing(high) > target:
        high *= 2
        if high > FAR:
            return np.inf
    while decreasing(high / 2) <= target:
        high /= 2
        if high * FAR < 1:
            return high
    low = high / 2
    while np.isinf(decreasing(low)):
        if high <= low * (1 + close):
            return high
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if decreasing(middle) > target else (low, middle)
    excess = lambda log_x: np.log(max(decreasing(np.exp(log_x)) / target, 1e-12))
    root: Any = brentq(excess, np.log(low), np.log(high), xtol=close / 4)
    found = np.exp(root)
    return float(next(x for x in found * (1 + close * np.arange(100) / 2) if decreasing(x) <= target))


def most(growing: Callable[[int], float], budget: float, limit: int) -> int:
    """The largest n <= `limit` with growing(n) <= budget; 0 if there is none."""
    low, high = 0, 1
    while high <= limit and growing(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if growing(middle) <= budget else (low, middle)
    return min(low, limit)

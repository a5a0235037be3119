"""Where a decreasing function comes down to a value."""

from collections.abc import Callable

import numpy as np

from fedjax_priv.theory._validate import Numbers, Result

FAR = 2.0**40


def least(decreasing: Callable[[Numbers], Result], target: Numbers, high: Numbers) -> Result:
    """The least x in [0, high] with decreasing(x) <= target, to machine precision; `high` if there is none."""
    low, end = np.zeros(np.shape(target)), np.asarray(high, np.float64)
    for _ in range(80):
        middle = (low + end) / 2
        above = decreasing(middle) > target
        low, end = np.where(above, middle, low), np.where(above, end, middle)
    return np.where(decreasing(np.zeros(np.shape(target))) <= target, 0, end)[()]


def unbounded_least(decreasing: Callable[[Numbers], Result], target: Numbers) -> Result:
    """The least x >= 0 with decreasing(x) <= target, to machine precision; infinite if there is none below `FAR`."""
    high = np.ones(np.shape(target))
    while (above := (decreasing(high) > target) & (high < FAR)).any():
        high = np.where(above, 2 * high, high)
    return np.where(decreasing(high) > target, np.inf, least(decreasing, target, high))[()]

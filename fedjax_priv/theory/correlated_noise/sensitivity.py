"""How far a client moves C x in all rounds together, in units of the clip norm."""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory.correlated_noise.workload import Column


class Schedule(NamedTuple):
    """How often a client may take part; a function that takes one raises ValueError for a field out of range."""

    num_rounds: int  # n >= 1
    separation: int = 1  # b >= 1: rounds of a client are at least so far apart
    participations: int | None = None  # k, the most rounds of a client; None: as many as fit, ceil(n / b)


def toeplitz_sensitivity(column: Column, schedule: Schedule) -> float:
    """The largest norm of a sum of k different columns of C that are at least b apart: exact, or an upper bound.

    It is the norm of the sum of columns 0, b, ..., (k-1) b. This is exact if C has at most b bands: a client's columns
    are then orthogonal, and later columns are shorter. It is also exact if coefficients are >= 0 and do not increase
    (Kalinin and Lampert 2024, arXiv 2405.13763, Theorem 2). Otherwise each coefficient is replaced by the largest
    absolute value from it on, which gives an upper bound. It does not hold for a C with normalized columns, which is
    not a Toeplitz matrix.

    Args:
      column: the first of C, `[bands]`; further coefficients are 0, and coefficients beyond n rounds do not count.
      schedule: of a client.

    Examples:
      >>> print(round(toeplitz_sensitivity(square_root(4), Schedule(num_rounds=4, separation=2, participations=2)), 3))
      1.95
    """
    n, b, k = checked(schedule)
    c = padded(column, n)
    if np.flatnonzero(c)[-1:].max(initial=0) >= b and ((c < 0).any() or (np.diff(c) > 0).any()):
        c = np.maximum.accumulate(np.abs(c)[::-1])[::-1]
    return float(np.linalg.norm(_moved(c, b, k)))


def tree_sensitivity(schedule: Schedule, leaves: int | None = None) -> float:
    """An upper bound on the norm of a client's counts in the nodes of binary trees over the rounds.

    A node of 2^j rounds contains at most ceil(2^j / b) rounds of the client. The bound lets the k rounds fill as many
    nodes of each height as they can; it is attained if b is a power of 2 and all trees are full. A single round gives
    sqrt(h + 1) in a tree of height h. Only complete intervals are nodes. Source: Kairouz et al. 2021, arXiv 2103.00039.

    Args:
      schedule: of a client.
      leaves: rounds of a tree, after which a new tree starts; None: one tree for all rounds.

    Examples:
      >>> print(tree_sensitivity(Schedule(num_rounds=8, separation=8)))  # once: in a leaf and three nodes above it
      2.0
    """
    n, _, k = checked(schedule)
    size = n if leaves is None else min(n, _validate.whole(leaves=leaves))
    total = 0
    for height in range(size.bit_length()):
        nodes = n // size * (size >> height) + (n % size >> height)
        most = min(k, -(-(2**height) // schedule.separation))
        total += nodes * most**2 if nodes * most <= k else k // most * most**2 + (k % most) ** 2
    return float(np.sqrt(total))


def _moved(c: np.ndarray, b: int, k: int) -> np.ndarray:
    """The sum of c moved by 0, b, ..., (k-1) b; sums of 1, 2, 4, ... of them are added as k's binary digits say."""
    found, several = np.zeros_like(c), c
    start, step = 0, b
    while k:
        if k % 2:
            found[start:] += several[: max(0, c.size - start)]
            start += step
        several, k = several + _later(several, step), k // 2
        step *= 2
    return found


def _later(c: np.ndarray, step: int) -> np.ndarray:
    kept = c[: max(0, c.size - step)]
    return np.concatenate([np.zeros(c.size - kept.size), kept])


def padded(column: Column, n: int) -> np.ndarray:
    """A first column as `[n]` numbers.

    Raises:
      ValueError: it is not a list of finite numbers, or the first is not > 0.
    """
    c = np.asarray(column)
    if c.ndim != 1 or not c.size or c.dtype.kind not in "iuf" or not np.isfinite(c).all() or c[0] <= 0:
        _validate.fail("column", column, "finite numbers, the first > 0")
    return np.concatenate([c[:n], np.zeros(max(0, n - c.size))])


def checked(schedule: Schedule) -> tuple[int, int, int]:
    """n, b, and k, which is at most ceil(n / b)."""
    n = _validate.length(num_rounds=_validate.setting(Schedule, schedule=schedule).num_rounds)
    b = _validate.whole(separation=schedule.separation)
    fits = -(-n // b)
    if schedule.participations is None:
        return n, b, fits
    return n, b, min(_validate.whole(participations=schedule.participations), fits)

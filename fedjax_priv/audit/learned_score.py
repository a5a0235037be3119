"""The best linear score, Fisher's discriminant, learned from the half of the runs that choose a test.

It weights the columns of scores by the inverse of their covariance. If noise is missing, or if coordinates, rounds or
clients share it, some combination of columns has no noise, and the discriminant finds it.
"""

import numpy as np

from fedjax_priv.audit.bounds.guessing import FEWEST
from fedjax_priv.audit.worlds import Worlds

_RIDGE = 0.01
"""Added to the variance 1 of each column: a combination without noise weighs about 100 times as much as one with."""
_RUNS_PER_COLUMN = 10
"""At least so many runs of both worlds together per learned weight: surplus columns are left out."""


def with_learned(worlds: Worlds) -> Worlds:
    """Appends a column if there are several: the discriminant, learned from runs 0, 2, ... of each world.

    Bounds choose a test on the same runs and count its errors on the other runs, so they still hold.
    """
    first, second = (np.asarray(world, np.float64) for world in worlds)
    if first.ndim == 1 or first.shape[1] < 2 or min(len(first), len(second)) < FEWEST:
        return worlds
    learned = _discriminant(first[::2], second[::2])
    return Worlds(*(np.column_stack([world, world @ learned]) for world in (first, second)))


def _discriminant(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Weights `[s]`; 0 for columns that are constant or left out."""
    gap = first.mean(0) - second.mean(0)
    centred = np.concatenate([first - first.mean(0), second - second.mean(0)])
    deviation = centred.std(0)
    most = max(2, len(centred) // _RUNS_PER_COLUMN)
    used = np.flatnonzero((deviation > 0) | (gap != 0))
    used = used[np.unique(np.linspace(0, used.size - 1, min(most, used.size)).astype(int))] if used.size else used
    scale = np.maximum(deviation[used], np.abs(gap[used]) / 1e3 + 1e-30)
    rows = centred[:, used] / scale
    covariance = rows.T @ rows / len(rows)
    weights = np.zeros(len(gap))
    weights[used] = np.linalg.solve(covariance + _RIDGE * np.eye(used.size), gap[used] / scale) / scale
    return weights

"""Eps of the rounds so far, from the figure of any number of rounds."""

from collections.abc import Callable

import numpy as np

POINTS = 64
"""Rounds at which eps is computed, at most about; the others have eps of the next one that is."""


def by_prefix(rounds: int, epsilon: Callable[[int], float | None]) -> np.ndarray:
    """Eps after each round, `[rounds]`; NaN where there is none.

    Args:
      rounds: of the run.
      epsilon: of so many first rounds; not falling.
    """
    stride = -(-rounds // POINTS)
    last = np.minimum(np.arange(stride, rounds + stride, stride), rounds)
    found = [epsilon(int(number)) for number in last]
    values = np.array([np.nan if eps is None else eps for eps in found])
    return np.repeat(values, np.diff(last, prepend=0))

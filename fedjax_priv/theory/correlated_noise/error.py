"""Noise in the server's iterates: the standard deviation of a coordinate, in units of a seed's standard deviation.

Multiplied by the sensitivity, it is the error at equal privacy: in units of C_clip / mu.
"""

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory.correlated_noise.sensitivity import padded
from fedjax_priv.theory.correlated_noise.workload import SGD, Column, Workload, divided, workload_column


def toeplitz_error(column: Column, num_rounds: int, workload: Workload = SGD) -> np.ndarray:
    """The norm of each row of B = A C^-1, `[n]`: the noise of the iterate after each round.

    Args:
      column: the first of C, `[bands]`; further coefficients are 0.
      num_rounds: n.
      workload: A.

    Examples:
      >>> print(toeplitz_error(square_root(4), 4).round(3), toeplitz_error([1.0], 4).round(3))
      [1.    1.118 1.179 1.22 ] [1.    1.414 1.732 2.   ]
    """
    a = workload_column(num_rounds, workload)
    return np.sqrt(np.cumsum(divided(a, padded(column, len(a))) ** 2))


def tree_error(num_rounds: int, leaves: int | None = None, variance_reduced: bool = True) -> np.ndarray:
    """The noise of prefix sums by binary trees after each round, `[n]`: of the nodes in a sum, and of finished trees.

    Args:
      num_rounds: n.
      leaves: rounds of a tree, after which a new tree starts; None: one tree for all rounds.
      variance_reduced: a node of height j has variance 2^j / (2^{j+1} - 1), not 1 (Honaker 2015, bottom-up).

    Examples:
      >>> print(tree_error(4, variance_reduced=False).round(3))
      [1.    1.    1.414 1.   ]
    """
    n = _validate.length(num_rounds=num_rounds)
    size = n if leaves is None else _validate.whole(leaves=leaves)
    _validate.flag(variance_reduced=variance_reduced)
    heights = np.arange(size.bit_length())
    node = 2.0**heights / (2.0 ** (heights + 1) - 1) if variance_reduced else np.ones(heights.size)
    of_sum = lambda rounds: (rounds[:, None] >> heights & 1) @ node
    rounds = np.arange(1, n + 1)
    return np.sqrt(rounds // size * of_sum(np.array([size])) + of_sum(rounds % size))


def root_mean_square(errors: np.ndarray) -> float:
    """Root mean square over the rounds: one number for the noise of all iterates.

    Examples:
      >>> print(round(root_mean_square(toeplitz_error([1.0], 4)), 3))  # independent noise: sqrt((1 + 2 + 3 + 4) / 4)
      1.581
    """
    return float(np.sqrt(np.mean(np.square(errors))))

"""How the server's optimizer weights noisy sums; lower triangular Toeplitz matrices as power series."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate

Column = Sequence[float] | np.ndarray
"""The first column of a lower triangular Toeplitz matrix; further coefficients are 0."""


class Workload(NamedTuple):
    """The server's optimizer: its iterates are weighted prefix sums of the directions.

    A function that takes one raises ValueError for a field outside its range.
    """

    momentum: float = 0.0  # beta, in [0, 1): the velocity is multiplied by it in each round
    decay: float = 1.0  # alpha, in (0, 1]: weight decay multiplies the parameters by it in each round


SGD = Workload()


def workload_column(num_rounds: int, workload: Workload = SGD) -> np.ndarray:
    """The first column of A, `[n]`: which weight does a direction have in the iterate k rounds later?

    The series of 1 / ((1 - alpha x) (1 - beta x)): all 1 for SGD, (1 - beta^{k+1}) / (1 - beta) with momentum.

    Args:
      num_rounds: n.
      workload: momentum and weight decay.

    Examples:
      >>> print(workload_column(4, Workload(momentum=0.5)))
      [1.    1.5   1.75  1.875]
    """
    return divided(one(_rounds(num_rounds)), _polynomial(workload))


def divided(series: np.ndarray, by: np.ndarray) -> np.ndarray:
    """The quotient of two power series, to as many coefficients as the first has: a triangular Toeplitz solve."""
    from scipy.signal import lfilter  # slow to import

    return np.asarray(lfilter([1.0], by, series), np.float64)


def multiplied(series: np.ndarray, by: np.ndarray) -> np.ndarray:
    """The product of two power series, to as many coefficients as the first has."""
    from scipy.signal import lfilter

    return np.asarray(lfilter(by, [1.0], series), np.float64)


def one(n: int) -> np.ndarray:
    """The power series 1."""
    return np.eye(1, n)[0]


def root_column(n: int, workload: Workload, power: float) -> np.ndarray:
    """The series of ((1 - alpha x) (1 - beta x)) to a power, such as -1/2 for the square root of A."""
    momentum, decay = checked(workload)
    k = np.arange(1, n)
    binomial = np.concatenate([[1.0], np.cumprod((k - 1 - power) / k)])
    of_momentum = np.trim_zeros(binomial * momentum ** np.arange(n), "b")
    return multiplied(binomial * decay ** np.arange(n), of_momentum)


def checked(workload: Workload) -> tuple[float, float]:
    """Momentum and decay."""
    momentum = _validate.real("[0, 1)", momentum=_validate.setting(Workload, workload=workload).momentum)
    return float(momentum), _validate.number("(0, 1]", decay=workload.decay)


def _polynomial(workload: Workload) -> np.ndarray:
    momentum, decay = checked(workload)
    return np.array([1.0, -momentum - decay, momentum * decay])


def _rounds(num_rounds: int) -> int:
    return _validate.length(num_rounds=num_rounds)

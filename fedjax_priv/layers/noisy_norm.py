"""How long a vector of integers gets when Skellam noise is added to each coordinate."""

import functools
import math
from collections.abc import Callable

import numpy as np

from fedjax_priv.layers.noise_skellam import largest_skellam
from fedjax_priv.layers.rounded_norm import FAILURE


@functools.lru_cache(maxsize=64)
def squared_noisy_bound(bound: int, noise_variance: float, d: int, failure: float = FAILURE) -> int:
    """What `||x + n||^2` exceeds with probability at most `failure`, for integers `||x||^2 <= bound` and noise n.

    About `bound + d noise_variance`. By Chernoff's bound, half of the failure each:

    - `2 <x, n>` is at most `2 min_y ||x|| (v (cosh y - 1) + L) / y`, since `E exp(t <x, n>)` is largest for an x with
      one coordinate;
    - `||n||^2` is at most `min_s (d log E exp(s n_1**2) + L) / s`, for noise up to the largest number that is drawn.

    Args:
      bound: of the squared norm of x, in grid points.
      noise_variance: v, of each client's Skellam noise at a coordinate, in squared grid points.
      d: coordinates.
      failure: in (0, 1); L is log(2 / failure).

    Examples:
      >>> squared_noisy_bound(100, 0.0, 10), squared_noisy_bound(10**6, 400.0, 10**5) / (10**6 + 400 * 10**5) < 1.05
      (100, True)
    """
    if not noise_variance:
        return bound
    rare = math.log(2 / failure)
    along = _least(lambda y: (2 * noise_variance * math.sinh(y / 2) ** 2 + rare) / y)
    exponent = _log_mean_exp_of_squares(noise_variance)
    noise = _least(lambda s: (d * exponent(s / noise_variance) + rare) / (s / noise_variance))
    return bound + math.floor(2 * math.sqrt(bound) * along + noise)


def _log_mean_exp_of_squares(variance: float) -> Callable[[float], float]:
    """`s -> log E exp(s n**2)` of the noise that is drawn, which has a largest number."""
    from scipy.special import ive  # slow to import

    n = np.arange(largest_skellam(variance) + 1)
    log_probability = np.log(ive(n, variance)) + np.where(n > 0, math.log(2), 0)
    square = n.astype(float) ** 2
    return lambda s: float(np.logaddexp.reduce(log_probability + s * square))


def _least(of: Callable[[float], float]) -> float:
    """The least value; any other that it has would be a valid bound, too."""
    from scipy import optimize  # slow to import

    found = optimize.minimize_scalar(lambda log: of(math.exp(log)), bounds=(-30, 6), method="bounded")
    return of(math.exp(found.x))

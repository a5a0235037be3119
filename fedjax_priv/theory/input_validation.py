"""What attackers can do if random projections check the norms of uploads: RiseFL (Zhu et al. 2023)."""

import math
from typing import Any

from scipy import optimize, stats

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result

HONEST_REJECTED = 2.0**-128
"""Default probability that RiseFL rejects an honest client."""


def acceptance(factor: Numbers, projections: int = 1000, honest_rejected: float = HONEST_REJECTED) -> Result:
    """How often does RiseFL accept an upload whose norm is `factor` times the allowed norm B?

    RiseFL projects u on `k = projections` Gaussian vectors and accepts it if `sum_t <a_t, u>**2 <= gamma B**2`. gamma
    is the quantile of chi^2_k that an honest client of norm B exceeds with probability `honest_rejected`. A vector of
    norm c B passes with probability `F_{chi^2_k}(gamma / c**2)`.

    Args:
      factor: c > 0.
      projections: k >= 1.
      honest_rejected: in (0, 1).

    Examples:
      >>> print(acceptance(1.3).round(4))
      0.5674
    """
    factor = _validate.real("(0, inf)", factor=factor)
    return stats.chi2.cdf(threshold(projections, honest_rejected) / factor**2, projections)


def threshold(projections: int = 1000, honest_rejected: float = HONEST_REJECTED) -> float:
    """Which gamma does RiseFL use? Arguments are those of `acceptance`.

    Examples:
      >>> round(threshold(), 4)
      1701.7373
    """
    _validate.integer(projections=projections)
    _validate.real("(0, 1)", honest_rejected=honest_rejected)
    return float(stats.chi2.isf(honest_rejected, projections))


def largest_damage(projections: int = 1000, honest_rejected: float = HONEST_REJECTED) -> float:
    """By how much can an attacker shift a RiseFL sum in expectation, in units of the allowed norm?

    The supremum over c > 0 of `c acceptance(c)`; an exact check would give 1. With one projection it is
    `sqrt(2 gamma / pi)`, the limit for large c. Arguments are those of `acceptance`.

    Examples:
      >>> round(largest_damage(), 4)
      1.2278
    """
    size = math.sqrt(threshold(projections, honest_rejected))
    if projections == 1:
        return size * math.sqrt(2 / math.pi)
    # of x = gamma / c**2: F(x) / sqrt(x) rises to its only peak, at the x where x f(x) = F(x) / 2
    passes = lambda x: float(stats.chi2.cdf(x, projections)) / math.sqrt(x)
    found: Any = optimize.minimize_scalar(lambda x: -passes(x), bounds=(projections, 5 * projections), method="bounded")
    return size * float(-found.fun)

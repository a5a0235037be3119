"""MeaMed: for each coordinate, the mean of the values nearest to the median."""

from fedjax_priv.aggregators.numerics.around_median import mean_around_median
from fedjax_priv.aggregators.rule_parts import minority, rule
from fedjax_priv.base import Aggregator


def meamed(num_byzantine: int) -> Aggregator:
    """Mean around median: for each coordinate, the mean of the `M - f` values nearest to the median (Xie et al. 2018).

    The median of an even number of values is the mean of the two in the middle. If several values are equally far and
    only some are needed, each counts in part.

    Args:
      num_byzantine: Byzantine rows to tolerate, `f`; if `2f >= M`, the direction is NaN.

    Raises:
      ValueError: `num_byzantine` is not an integer >= 0.

    Examples:
      >>> print(meamed(1)([[1.0], [2.0], [3.0], [99.0]]))
      [2.]
    """

    direct = lambda rows, ok: mean_around_median(rows, ok, ok.sum() - num_byzantine)
    return rule(direct, minority(num_byzantine), steady=True)

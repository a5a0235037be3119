"""The mean of each coordinate without its extremes."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.order_statistics import mean_of_ranks
from fedjax_priv.aggregators.rule_parts import by_count, fewer_than_half, minority, part_of, rule
from fedjax_priv.base import Aggregator


def trimmed_mean(num_byzantine: int | None = None, *, fraction: float | None = None) -> Aggregator:
    """The coordinate-wise trimmed mean of the `M` rows `[g, d]` that are there (Yin et al. 2018, Definition 2).

    Of each coordinate, the `f` largest and the `f` smallest values are left out; NaN counts as the largest.

    Args:
      num_byzantine: `f`; where `2f >= M` the direction is NaN.
      fraction: in place of num_byzantine, `f = floor(fraction M)`; below 1/2, so that a value is left.

    Raises:
      ValueError: not exactly one of the two is given, or it is out of range.
    """
    if (num_byzantine is None) == (fraction is None):
        raise ValueError("trimmed_mean takes num_byzantine or fraction, and not both")
    most = minority(num_byzantine) if num_byzantine is not None else _trimmed_fraction(fraction)

    def direct(rows: Array, ok: Array) -> Array:
        trimmed = by_count(most, ok)
        return mean_of_ranks(rows, ok, trimmed, ok.sum() - trimmed)

    return rule(direct, most)


def _trimmed_fraction(fraction: Any) -> Callable[[int], int]:
    _validate.below_half(fraction=fraction)
    return lambda num_rows: min(part_of(fraction, num_rows), fewer_than_half(num_rows))

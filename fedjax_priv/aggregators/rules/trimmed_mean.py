"""The mean of each coordinate without its extremes."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.order_statistics import mean_of_ranks
from fedjax_priv.aggregators.rule_parts import by_count, fewer_than_half, minority, rule
from fedjax_priv.base import Aggregator
from fedjax_priv.engine.rounded_fractions import part_of


def trimmed_mean(num_byzantine: int | None = None, *, fraction: float | None = None) -> Aggregator:
    """The coordinate-wise trimmed mean of the `M` rows `[g, d]` present (Yin et al. 2018, Definition 2).

    For each coordinate the `f` largest and the `f` smallest values are left out; NaN counts as the largest.

    Args:
      num_byzantine: Byzantine rows to tolerate, `f`; if `2f >= M`, the direction is NaN.
      fraction: fraction of the rows trimmed at each end, in [0, 1/2), instead of num_byzantine; `f = floor(fraction M)`

    Raises:
      ValueError: both or neither are given, or the one given is out of range.

    Examples:
      >>> print(trimmed_mean(1)([[1.0], [2.0], [4.0], [99.0]]))
      [3.]
    """
    if (num_byzantine is None) == (fraction is None):
        raise ValueError(
            f"exactly one of num_byzantine and fraction must be given, got {num_byzantine!r} and {fraction!r}"
        )
    most = minority(num_byzantine) if num_byzantine is not None else _trimmed_fraction(fraction)

    def direct(rows: Array, ok: Array) -> Array:
        trimmed = by_count(most, ok)
        return mean_of_ranks(rows, ok, trimmed, ok.sum() - trimmed)

    return rule(direct, most, steady=True)


def _trimmed_fraction(fraction: Any) -> Callable[[int], int]:
    _validate.below_half(fraction=fraction)
    return lambda num_rows: min(part_of(fraction, num_rows), fewer_than_half(num_rows))

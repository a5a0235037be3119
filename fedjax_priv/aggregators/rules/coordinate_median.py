"""The median of each coordinate."""

from typing import Literal

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.order_statistics import mean_of_ranks
from fedjax_priv.aggregators.rule_parts import fewer_than_half, rule
from fedjax_priv.base import Aggregator


def coordinate_median(even: Literal["mean", "lower"] = "mean") -> Aggregator:
    """The coordinate-wise median of the rows `[g, d]` present (Yin et al. 2018, Definition 1).

    It tolerates any minority of Byzantine rows; NaN counts as the largest value.

    Args:
      even: what to take of an even number of values: the `"mean"` of the two in the middle (NumPy, ByzFL), or the
        `"lower"` of them (torch).

    Raises:
      ValueError: `even` is neither.

    Examples:
      >>> print(coordinate_median()([[1.0, 5.0], [2.0, 4.0], [99.0, -99.0]]))
      [2. 4.]
    """
    _validate.one_of(("mean", "lower"), even=even)

    def direct(rows: Array, ok: Array) -> Array:
        low = (ok.sum() - 1) // 2
        return mean_of_ranks(rows, ok, low, ok.sum() // 2 + 1 if even == "mean" else low + 1)

    return rule(direct, fewer_than_half, steady=True)

"""Replaces each row by the mean of the rows nearest to it."""

from jaxtyping import Array

from fedjax_priv.aggregators.numerics.column_blocks import means
from fedjax_priv.aggregators.numerics.row_distances import geometry, squared_distances
from fedjax_priv.aggregators.pre_aggregation.pre_aggregator import PreAggregator
from fedjax_priv.aggregators.rule_parts import minority, smallest
from fedjax_priv.base import Key


def nearest_neighbour_mixing(num_byzantine: int) -> PreAggregator:
    """Each row becomes the mean of its `M - f` nearest rows, itself included (Allouah et al. 2023, NNM).

    Ties go to the first row. A row that is not finite, or 1e23 times as far as the middle one, becomes NaN.

    Args:
      num_byzantine: `f`, which the rule that follows must tolerate too; if `2f >= M`, the direction is NaN.

    Raises:
      ValueError: `num_byzantine` is not an integer >= 0.

    Examples:
      >>> rule = pre_aggregated(nearest_neighbour_mixing(1), coordinate_median())
      >>> print(rule([[1.0], [2.0], [3.0], [99.0]]))
      [2.]
    """

    def apply(key: Key, rows: Array, ok: Array) -> tuple[Array, Array]:
        del key
        places = geometry(rows, ok)
        neighbours = smallest(squared_distances(places.gram, places.near), ok.sum() - num_byzantine)
        return means(neighbours | ~places.near[:, None], rows, places.near), ok

    return PreAggregator(apply, minority(num_byzantine), equivariant=True)

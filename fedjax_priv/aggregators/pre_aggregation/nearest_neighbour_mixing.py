"""Each row replaced by the mean of its neighbourhood."""

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv.aggregators.numerics.column_blocks import weighted_sums
from fedjax_priv.aggregators.numerics.row_distances import geometry, squared_distances
from fedjax_priv.aggregators.pre_aggregation.pre_aggregator import PreAggregator
from fedjax_priv.aggregators.rule_parts import minority, smallest
from fedjax_priv.base import Key


def nearest_neighbour_mixing(num_byzantine: int) -> PreAggregator:
    """Each row becomes the mean of its `M - f` nearest rows, itself included (Allouah et al. 2023, NNM).

    Of rows equally far the first. A row that is not finite, or beyond 1e19, is infinitely far, and is NaN afterwards.

    Args:
      num_byzantine: `f`; it is for rules that bear as many, and gives no result where `2f >= M`.

    Raises:
      ValueError: `num_byzantine` is not an integer >= 0.
    """

    def apply(key: Key, rows: Array, ok: Array) -> tuple[Array, Array]:
        del key
        places = geometry(rows, ok)
        how_many = ok.sum() - num_byzantine
        neighbours = smallest(squared_distances(places.gram, places.near), how_many)
        mixed = weighted_sums(neighbours.astype(rows.dtype), rows, places.near) / how_many.astype(rows.dtype)
        return jnp.where(places.near[:, None], mixed, jnp.nan), ok

    return PreAggregator(apply, minority(num_byzantine))

"""MDA: the mean of the subset with the least diameter."""

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv.aggregators.numerics.row_distances import both, distances
from fedjax_priv.aggregators.numerics.subsets import best_subset
from fedjax_priv.aggregators.rule_parts import mean_of, minority, rule
from fedjax_priv.base import Aggregator


def mda(num_byzantine: int) -> Aggregator:
    """Minimum diameter averaging: the mean of the `M - f` rows with the least largest distance (El Mhamdi et al. 2020).

    It tolerates `f < M/2`. If several subsets have the least diameter, the first in the order of
    `itertools.combinations` is taken, as in ByzFL.

    Args:
      num_byzantine: Byzantine rows to tolerate, `f`; if `2f >= M`, the direction is NaN.

    Raises:
      ValueError: `num_byzantine` is not an integer >= 0, or there are more than 50,000 subsets of `g` rows.
    """

    def direct(rows: Array, ok: Array) -> Array:
        distance = distances(rows, ok)
        best = best_subset(lambda mask: _diameter(mask, distance), num_byzantine, ok)
        return mean_of(best, rows)

    return rule(direct, minority(num_byzantine))


def _diameter(mask: Array, distance: Array) -> Array:
    return jnp.where(both(mask), distance, 0.0).max()

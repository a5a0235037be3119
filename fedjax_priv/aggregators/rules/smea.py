"""SMEA: the mean of the subset with the least variance in any direction."""

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv.aggregators.numerics.covariance import about_mean, top_pair
from fedjax_priv.aggregators.numerics.row_distances import Geometry, both, geometry
from fedjax_priv.aggregators.numerics.subsets import best_subset
from fedjax_priv.aggregators.rule_parts import mean_of, minority, rule
from fedjax_priv.base import Aggregator


def smea(num_byzantine: int) -> Aggregator:
    """Smallest maximum eigenvalue averaging: the mean of `M - f` rows (Allouah et al. 2023, SMEA).

    It takes the rows whose covariance has the least top eigenvalue, computed exactly; ByzFL takes one step of a power
    iteration from a random start.

    Args:
      num_byzantine: Byzantine rows to tolerate, `f`; if `2f >= M`, the direction is NaN.

    Raises:
      ValueError: `num_byzantine` is not an integer >= 0, or there are more than 50,000 subsets of `g` rows.
    """

    def direct(rows: Array, ok: Array) -> Array:
        places = geometry(rows, ok)
        best = best_subset(lambda mask: _spread(mask, places), num_byzantine, ok)
        return mean_of(best, rows)

    return rule(direct, minority(num_byzantine))


def _spread(mask: Array, places: Geometry) -> Array:
    """Top eigenvalue of a subset's scatter matrix; infinite if one of its rows is infinitely far."""
    scatter = jnp.where(both(mask), about_mean(places.gram, mask.astype(places.gram.dtype)), 0.0)
    known = jnp.where(mask, places.near, True).all()
    return jnp.where(known, top_pair(scatter)[0], jnp.inf)

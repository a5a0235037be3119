"""The geometric median, by smoothed Weiszfeld steps."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.column_blocks import weighted_sum
from fedjax_priv.aggregators.numerics.row_distances import Geometry, distances_to_sum, geometry
from fedjax_priv.aggregators.rule_parts import fewer_than_half, rule
from fedjax_priv.base import Aggregator


def geometric_median(steps: int = 5, nu: float | Array = 1e-5, start: str = "mean") -> Aggregator:
    """Smoothed Weiszfeld steps towards the point of least total distance to the rows `[g, d]` (Pillutla et al. 2022).

    `v <- sum_l a_l b_l / sum_l a_l`, `a_l = 1 / max(nu, ||b_l - v||)` (their Algorithm 2). A row that is not finite, or
    whose squared distance overflows float32 (norms near 1e19), has no weight, also in the mean of the start. Distances
    come from inner products of rows, with an error up to 1e-3 of the largest distance to a near row.

    The geometric median tolerates any minority of Byzantine rows. A few steps from the mean still depend on the start,
    which such rows can move far; each step shrinks that offset to about their fraction of it.

    Args:
      steps: iterations; 5 in FedREP and in the authors' code, 3 in ByzFL.
      nu: distances below this count as this; 1e-5 in the authors' code, 0.1 in ByzFL.
      start: where to start, at the `"mean"` of the rows (authors) or at `"zero"` (ByzFL).

    Raises:
      ValueError: an argument is out of range.
    """
    _validate.integer(steps=steps)
    least = _validate.positive(nu=nu)
    _validate.one_of(("mean", "zero"), start=start)

    def direct(rows: Array, ok: Array) -> Array:
        places = geometry(rows, ok)
        first = places.near.astype(rows.dtype)
        if start == "zero":
            first = _weights(places, jnp.sqrt(places.norm), least)

        def step(_: Array, weights: Array) -> Array:
            return _weights(places, distances_to_sum(places.gram, weights / weights.sum()), least)

        weights = lax.fori_loop(1 if start == "zero" else 0, steps, step, first)
        return weighted_sum(weights / weights.sum(), rows)

    return rule(direct, fewer_than_half)


def _weights(places: Geometry, distance: Array, least: float | Array) -> Array:
    return jnp.where(places.near, 1 / jnp.maximum(distance, least), 0.0)

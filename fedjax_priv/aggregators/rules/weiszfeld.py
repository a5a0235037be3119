"""A few smoothed Weiszfeld steps towards the geometric median, as papers and other libraries take them."""

from typing import Literal

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.column_blocks import weighted_sum
from fedjax_priv.aggregators.numerics.row_distances import Geometry, distances_to_sum, geometry
from fedjax_priv.aggregators.rule_parts import fewer_than_half, rule
from fedjax_priv.base import Aggregator
from fedjax_priv.engine.row_norms import norms

LEAST = 2.0**-60
"""Distances below this, in the units of `Geometry`, count as this, so that a weight is finite."""


def weiszfeld(steps: int = 5, nu: float | Array = 1e-5, start: Literal["mean", "zero"] = "mean") -> Aggregator:
    """A fixed number of smoothed Weiszfeld steps on the rows `[g, d]` (Pillutla et al. 2022, Algorithm 2).

    `v <- sum_l a_l b_l / sum_l a_l`, `a_l = 1 / max(nu, ||b_l - v||)`. FedREP and ByzFL call the result the geometric
    median. It is not robust: each step shrinks the offset of the start, which Byzantine rows can move anywhere, only to
    about `f / (M - f)` of it. `geometric_median` goes on until nothing moves. A row that is not finite or infinitely
    far (`numerics.row_distances`) has no weight, also in the mean of the start. Distances come from inner products of
    rows, with an error up to 1e-3 of the largest distance to a near row.

    Args:
      steps: iterations; 5 in FedREP and in the authors' code, 3 in ByzFL.
      nu: distances below this count as this; 1e-5 in the authors' code, 0.1 in ByzFL.
      start: where to start, at the `"mean"` of the rows (authors) or at `"zero"` (ByzFL).

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> print(weiszfeld(steps=1, start="zero")([[1.0], [2.0], [2.0]]).round(1))
      [1.5]
    """
    _validate.integer(steps=steps)
    nu = _validate.positive(nu=nu)
    _validate.one_of(("mean", "zero"), start=start)

    def direct(rows: Array, ok: Array) -> Array:
        places = geometry(rows, ok)
        first, least = places.near.astype(rows.dtype), jnp.maximum(nu * places.scale, LEAST)
        if start == "zero":
            first = inverse(places, norms(rows, places.scale), least)

        def step(_: Array, weights: Array) -> Array:
            return inverse(places, distances_to_sum(places.gram, weights / weights.sum()), least)

        weights = lax.fori_loop(1 if start == "zero" else 0, steps, step, first)
        return weighted_sum(weights / weights.sum(), rows)

    return rule(direct, fewer_than_half, equivariant=True)


def inverse(places: Geometry, distance: Float[Array, " g"], least: float | Array) -> Float[Array, " g"]:
    """Weights of near rows: one over their distance, or over `least` if that is larger."""
    return jnp.where(places.near, 1 / jnp.maximum(distance, least), 0.0)

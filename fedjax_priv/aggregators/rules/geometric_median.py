"""The geometric median, iterated until nothing moves."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.column_blocks import dot, gram, weighted_sum
from fedjax_priv.aggregators.numerics.row_distances import (
    Geometry,
    both,
    distances_to_sum,
    geometry,
    median_distances,
    squared_distances,
)
from fedjax_priv.aggregators.rule_parts import fewer_than_half, rule
from fedjax_priv.aggregators.rules.weiszfeld import LEAST, inverse
from fedjax_priv.base import Aggregator

MOST_STEPS = 1000
TOLERANCE = 1e-7
"""Iteration ends once a step is shorter than this fraction of the typical distance between rows."""
STILL_MOVING = 1e-5
"""If the last of all steps is longer than this fraction of the median distance to the rows, there is no direction."""
RELATIVE_NU = 1e-6
ROUNDING = 1e-5
"""Inner products of equal rows differ by a smaller fraction."""


def geometric_median(nu: float | Array | None = None) -> Aggregator:
    """The point of least total distance to the rows `[g, d]` (Pillutla et al. 2022, "RFA").

    Smoothed Weiszfeld steps `v <- sum_l a_l b_l / sum_l a_l`, `a_l = 1 / max(nu, ||b_l - v||)`, until a step is shorter
    than 1e-7 of the typical distance between rows, but at most 1,000. Steps need only inner products of rows. From
    where they end, at most 1,000 more use those relative to the nearest row, where small distances are exact. The start
    weighs each row by one over its median distance to the others, which a minority cannot move. If the rows lie on a
    line and their number is even, any point between the two in the middle is a solution; the start decides.

    If most rows are equal, or half of them and the others are not, the direction is one of these, exactly: steps would
    end a billionth of the way to the others, and a minority chooses how far that is.

    If the last of all these steps is still longer than 1e-5 of the median distance to the rows, the direction is NaN,
    so that the round fails with `Status.NOT_FINITE`. Of the rows that were tried, up to 1,001 of which 500 are as far
    away as 1e4 times the others, none do that.

    It tolerates any minority of f Byzantine rows: `||v - mean|| <= 2 / (M - 2 f) sum_l ||b_l - mean||` over honest
    rows, for nu = 0. A row that is not finite or infinitely far (`numerics.row_distances`) has no weight. The error by
    rounding is below 1e-4 of the typical distance between rows.

    Args:
      nu: distances below this count as this, may be traced; 1e-6 of the typical distance between rows if not given, so
        that the direction of scaled rows is the scaled direction.

    Raises:
      ValueError: `nu` is not a finite number > 0.

    Examples:
      >>> print(geometric_median()([[1.0], [2.0], [99.0]]).round(3))
      [2.]
    """
    given = None if nu is None else _validate.positive(nu=nu)

    def direct(rows: Array, ok: Array) -> Array:
        places = geometry(rows, ok)
        apart = jnp.sqrt(median_distances(squared_distances(places.gram, places.near)))
        typical = jnp.sort(apart)[(places.near.sum() - 1) // 2]
        smoothed = RELATIVE_NU * typical if given is None else given * places.scale
        least = jnp.maximum(smoothed, LEAST)
        fractions = lambda distance: _fractions(inverse(places, distance, least))
        found, _ = _still(places.gram, fractions, fractions(apart), TOLERANCE * typical)
        nearest = rows[jnp.argmin(jnp.where(places.near, distances_to_sum(places.gram, found), jnp.inf))]
        here = jnp.where(both(places.near), gram(rows, nearest, places.scale), 0.0)
        shares, moved = _still(here, fractions, found, TOLERANCE * typical)
        away = jnp.sort(jnp.where(places.near, distances_to_sum(here, shares), jnp.inf))
        still = moved <= jnp.maximum(TOLERANCE * typical, STILL_MOVING * away[(places.near.sum() - 1) // 2])
        one = (jnp.arange(len(rows)) == jnp.argmax(places.equal)).astype(rows.dtype)
        settled = _at_equal_rows(places) & (smoothed < LEAST)
        return weighted_sum(jnp.where(settled, one, jnp.where(still, shares, jnp.nan)), rows)

    return rule(direct, fewer_than_half, equivariant=True)


def _at_equal_rows(places: Geometry) -> Bool[Array, ""]:
    """Whether the central row, with its equals, is the only solution; two halves of equal rows have others."""
    others = places.near & ~places.equal
    more = places.equal.sum() - others.sum()
    least = jnp.where(both(others), places.gram, jnp.inf).min()
    differ = least < (1 - ROUNDING) * jnp.where(both(others), places.gram, -jnp.inf).max()
    return (more > 0) | ((more == 0) & differ)


def _still(
    products: Float[Array, "g g"], fractions: Callable[[Array], Array], start: Float[Array, " g"], short: Array
) -> tuple[Float[Array, " g"], Float[Array, ""]]:
    """The fractions of rows that a step changes by no more than `short`, and by how much the last step did."""

    def step(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        number, _, old = now
        new = fractions(distances_to_sum(products, old))
        change = new - old
        return number + 1, jnp.sqrt(jnp.maximum(dot(change, dot(products, change)), 0.0)), new

    def unfinished(now: tuple[Array, Array, Array]) -> Array:
        number, moved, _ = now
        return (number < MOST_STEPS) & (moved > short)

    _, moved, found = lax.while_loop(unfinished, step, (jnp.int32(0), jnp.float32(jnp.inf), start))
    return found, moved


def _fractions(weights: Float[Array, " g"]) -> Float[Array, " g"]:
    return weights / weights.sum()

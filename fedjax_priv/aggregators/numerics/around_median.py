"""For each column, the mean of the values nearest to the median."""

import functools

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedjax_priv.aggregators.numerics.column_blocks import dot, map_columns
from fedjax_priv.aggregators.numerics.order_statistics import mean_of_ranks
from fedjax_priv.engine.products import rounded, zero_of
from fedjax_priv.engine.side_by_side import by_platform


def mean_around_median(rows: Float[Array, "g d"], ok: Bool[Array, " g"], wanted: Int[Array, ""]) -> Float[Array, " d"]:
    """The mean of the `wanted` values nearest to the median of the rows in `ok`, by column.

    The median of an even number of values is the mean of the two in the middle. If several values are equally far and
    only some are needed, each counts in part. NaN counts as the largest value.

    A distance must have the same bits wherever it is compared, also where XLA computes it twice. So what is subtracted
    is rounded first. A CPU computes it once, in a loop over blocks of columns, if there are several.
    """
    zero = zero_of(lax.bitcast_convert_type(rows[:1, :1], jnp.uint32).sum(dtype=jnp.uint32))
    once = (lambda values, zero: values) if rows.shape[1] > 1 else rounded
    as_compared = lambda values: by_platform(once, rounded, values, zero)
    num_rows, rows = ok.sum(), as_compared(lax.optimization_barrier(rows))
    median = as_compared(mean_of_ranks(rows, ok, (num_rows - 1) // 2, num_rows // 2 + 1))
    away = lax.optimization_barrier(jnp.abs(rows - median[None, :]))
    furthest = mean_of_ranks(away, ok, wanted - 1, wanted)
    return map_columns(functools.partial(_mean_within, ok=ok, wanted=wanted), rows, away, furthest)


def _mean_within(rows: Array, away: Array, furthest: Array, *, ok: Array, wanted: Array) -> Array:
    inside, edge = ok[:, None] & (away < furthest[None, :]), ok[:, None] & (away == furthest[None, :])
    room = wanted.astype(rows.dtype) - _count(inside)
    total = _sum(inside, rows) + _sum(edge, rows) * (room / jnp.maximum(_count(edge), 1.0))
    return total / wanted.astype(rows.dtype)


def _sum(chosen: Array, rows: Array) -> Array:
    """Sums of the chosen values of each column, as a product: XLA's reduction along a major axis is slow on a CPU."""
    ones = jnp.ones(len(rows), rows.dtype)
    return dot(ones, jnp.where(chosen, rows, jnp.zeros((), rows.dtype)))


def _count(chosen: Array) -> Array:
    return _sum(chosen, jnp.ones(chosen.shape, jnp.float32))

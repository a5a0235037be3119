"""SignGuard: the rows of usual length whose signs are like those of most others."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.column_blocks import weighted_sum
from fedjax_priv.aggregators.numerics.mean_shift import largest_cluster
from fedjax_priv.aggregators.rule_parts import checked_direction, fewer_than_half, rows_of
from fedjax_priv.base import Aggregator, Key, Received, absent
from fedjax_priv.engine.row_norms import norms

SHORTEST, LONGEST = 0.1, 3.0
"""Rows are kept whose length is between these multiples of the middle one."""


def sign_guard(fraction: float = 0.1) -> Aggregator:
    """The mean of the rows `[g, d]` kept, each no longer than the median norm (Xu et al. 2022, SignGuard).

    A row is kept if its norm is 0.1 to 3 times the median norm, and if it is in the largest cluster. Rows are clustered
    by their fractions of positive, zero and negative values, in a random run of coordinates, each fraction divided by
    its maximum over rows; `numerics.mean_shift` describes the clusters. The authors' code takes scikit-learn's mean
    shift from starting points on a grid, this one from the rows. If no row is kept, the direction is NaN. A row that is
    not finite counts as the longest, and is in no cluster.

    It tolerates any minority of Byzantine rows whose length or signs differ from those of honest rows; there is no
    bound for others. If honest rows are in several clusters, equal Byzantine rows can be the largest cluster; if these
    are also too long, no row is left. About half of the values of a rotated or noisy row are positive whatever the row
    was, so the rule does not work after rotations, random projections and noise at the client.

    Args:
      fraction: fraction of the coordinates looked at, in (0, 1], one coordinate at least; with 1 nothing is drawn.

    Raises:
      ValueError: `fraction` is out of range.

    Examples:
      >>> rows = [[1.0, 1.0], [2.0, 2.0], [2.0, 2.0], [-2.0, -2.0]]
      >>> print(sign_guard(fraction=1.0)(rows, key=jax.random.key(0)).round(2))
      [1.67 1.67]
    """
    _validate.known(fraction=fraction)
    _validate.fraction(above_zero=True, fraction=fraction)

    def apply(key: Key, state: tuple, received: Received) -> tuple[Array, tuple]:
        rows, ok = rows_of(received), received.count > 0
        length = jnp.where(ok, norms(rows), jnp.inf)
        length = jnp.where(jnp.isnan(length), jnp.inf, length)
        middle = _median(length, ok)
        finite = ok & jnp.isfinite(length)
        usual = finite & (length >= SHORTEST * middle) & (length <= LONGEST * middle)
        kept = usual & largest_cluster(_sign_shares(_run(key, rows, received.used, fraction), finite), finite)
        clipped = jnp.where(kept, jnp.minimum(1.0, middle / jnp.where(length > 0, length, 1.0)), 0.0)
        clipped = jnp.where(kept & (length == 0), 1.0, clipped)
        direction = weighted_sum(clipped / kept.sum().astype(rows.dtype), rows)
        return checked_direction(jnp.where(kept.any(), direction, jnp.nan), ok, fewer_than_half), state

    return Aggregator(lambda d: (), apply, fewer_than_half)


def _median(length: Float[Array, " g"], ok: Array) -> Array:
    ordered, number = jnp.sort(length), ok.sum()
    return (ordered[(number - 1) // 2] + ordered[number // 2]) / 2


def _run(key: Key, rows: Float[Array, "g d"], used: PyTree, fraction: float) -> Float[Array, "g w"]:
    """A random run of the places that are used; if not all are, among others that hold NaN, which has no sign."""
    if absent(used):
        width = max(1, round(fraction * rows.shape[1]))
        if width == rows.shape[1]:
            return rows
        start = jax.random.randint(key, (), 0, rows.shape[1] - width + 1)
        return jax.lax.dynamic_slice_in_dim(rows, start, width, 1)
    if fraction == 1:
        return jnp.where(used, rows, jnp.nan)
    number = used.sum()
    width = jnp.maximum(1, jnp.round(fraction * number.astype(rows.dtype))).astype(number.dtype)
    place = jnp.cumsum(used) - 1 - jax.random.randint(key, (), 0, jnp.maximum(number - width, 0) + 1)
    return jnp.where(used & (place >= 0) & (place < width), rows, jnp.nan)


def _sign_shares(rows: Float[Array, "g w"], ok: Array) -> Float[Array, "g 3"]:
    """Of the rows in `ok`, each share divided by the largest."""
    count = lambda signs: jnp.where(ok, signs.sum(1), 0)
    counts = jnp.stack([count(rows > 0), count(rows == 0), count(rows < 0)], 1).astype(jnp.float32)
    return counts / jnp.maximum(counts.max(0), 1.0)[None, :]

"""FilterL2 of F2ed-Learning: lowers the weights of outliers while the covariance of the rows is too large."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.column_blocks import weighted_sum
from fedjax_priv.aggregators.numerics.covariance import down_weigh, top_variance
from fedjax_priv.aggregators.numerics.row_distances import geometry
from fedjax_priv.aggregators.rule_parts import by_count, fewer_than_half, rule
from fedjax_priv.base import Aggregator
from fedjax_priv.engine.rounded_fractions import part_of

LEAST_LEFT = 1e-3
"""A pass must leave this fraction of the weight: it could otherwise remove both of two rows of equal weight."""


def filter_l2(
    sigma: float | Array,
    *,
    bound: float = 20.0,
    squared: bool = False,
    fraction: float | None = None,
    block: int | None = None,
) -> Aggregator:
    """A weighted mean of rows `[g, d]` (Steinhardt 2018; Wang et al. 2020, F2ed-Learning).

    All weights start at 1. While the top eigenvalue of the weighted covariance is above `bound sigma^2`:
    `w_l <- w_l (1 - tau_l / max tau)`, where `tau_l` is the squared component of the row minus the mean along the top
    eigenvector, and the maximum is over rows that still have a weight. Each pass removes a row for good; a pass that
    would remove all is not made. Rows that are not finite, or infinitely far, start with weight 0.

    It tolerates a minority of Byzantine rows, with a `fraction` at most `floor(fraction M)`, if honest rows have a
    standard deviation of at most `sigma` in any direction. The authors' code has `squared=True, block=1000`, a
    `fraction`, and `sigma=1`, which filters nothing at the scale of model updates.

    Args:
      sigma: standard deviation of honest rows in their worst direction.
      bound: largest variance tolerated, as a multiple of `sigma^2`; 20 is the authors'.
      squared: compare the square of the largest eigenvalue (authors' code).
      fraction: makes at most `2 floor(fraction M)` passes (authors' code: fraction of Byzantine rows); None: no limit.
      block: filter each run of this many coordinates separately (authors' code: 1,000); None: all at once.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> print(filter_l2(1.0, bound=1.0)([[1.0], [2.0], [3.0], [99.0]]).round(2))
      [2.01]
    """
    sigma, bound = _validate.non_negative(sigma=sigma), _validate.positive(bound=bound)
    _validate.one_of((True, False), squared=squared)
    if fraction is not None:
        _validate.known(fraction=fraction)
        _validate.fraction(fraction=fraction)
    if block is not None:
        _validate.integer(block=block)

    widest = jnp.sqrt(jnp.sqrt(bound) * sigma) if squared else jnp.sqrt(bound) * sigma

    def most_byzantine(num_rows: int) -> int:
        minority = fewer_than_half(num_rows)
        return minority if fraction is None else min(minority, part_of(fraction, num_rows))

    def direct(rows: Array, ok: Array) -> Array:
        most = by_count(lambda m: m if fraction is None else 2 * part_of(fraction, m), ok)
        one = lambda rows: _filtered(rows, ok, widest, most)
        direction = one(rows) if block is None else _in_blocks(one, rows, block)
        return jnp.where(jnp.isnan(widest), jnp.nan, direction)

    return rule(direct, most_byzantine, equivariant=block is None, steady=True)


def _filtered(rows: Array, ok: Array, widest: Array, most_passes: Array) -> Array:
    places = geometry(rows, ok)
    largest = widest * places.scale  # the square of it may not be a float32

    def unfinished(now: tuple) -> Array:
        passes, _, value, _ = now
        return (jnp.sqrt(value) > largest) & (passes < most_passes)

    def one_more(now: tuple) -> tuple:
        passes, weights, _, along = now
        lighter = down_weigh(weights, along, weights > 0)
        left = lighter.sum() > LEAST_LEFT * weights.sum()
        weights = jnp.where(left, lighter, weights)
        return jnp.where(left, passes + 1, most_passes), weights, *top_variance(places.gram, weights)

    first = places.near.astype(rows.dtype)
    start = (jnp.int32(0), first, *top_variance(places.gram, first))
    _, weights, _, _ = lax.while_loop(unfinished, one_more, start)
    return weighted_sum(weights / weights.sum(), rows)


def _in_blocks(f: Callable[[Array], Array], rows: Array, block: int) -> Array:
    """`f` of each block of columns; the zeros that pad the last block change no distance."""
    num_rows, num_columns = rows.shape
    filled = jnp.pad(rows, ((0, 0), (0, -num_columns % block)))
    blocks = jnp.moveaxis(filled.reshape(num_rows, -1, block), 1, 0)
    return jax.vmap(f)(blocks).reshape(-1)[:num_columns]

"""Rows no longer than a radius."""

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.column_blocks import norms
from fedjax_priv.aggregators.pre_aggregation.pre_aggregator import PreAggregator
from fedjax_priv.base import Key


def clipping(radius: float | Array) -> PreAggregator:
    """Each row times `min(1, radius / norm)`.

    One beyond 1e19, whose square float32 does not hold, becomes zero; one that is not finite becomes NaN.

    Args:
      radius: largest Euclidean norm that is left as it is; may be traced.

    Raises:
      ValueError: `radius` is not a finite number > 0.
    """
    _validate.positive(radius=radius)
    longest = _validate.or_nan(radius, above=0.0)

    def apply(key: Key, rows: Array, ok: Array) -> tuple[Array, Array]:
        del key
        return clipped(rows, norms(rows), longest), ok

    return PreAggregator(apply, lambda num_rows: num_rows)


def clipped(rows: Array, norm: Array, longest: Array | float) -> Array:
    """Rows of the given norms, no longer than `longest`."""
    factor = jnp.where(norm > longest, longest / norm, jnp.where(jnp.isnan(norm + longest), jnp.nan, 1.0))
    return rows * factor[:, None]

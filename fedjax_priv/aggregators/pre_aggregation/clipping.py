"""Clipping of rows to a given norm."""

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv._devices import finite_rows
from fedjax_priv.aggregators.pre_aggregation.pre_aggregator import PreAggregator
from fedjax_priv.base import Key
from fedjax_priv.engine.row_norms import norms


def clipping(radius: float | Array) -> PreAggregator:
    """Multiplies each row by `min(1, radius / norm)`.

    A row that is not finite becomes NaN.

    Args:
      radius: largest Euclidean norm left unchanged; may be traced.

    Raises:
      ValueError: `radius` is not a finite number > 0.

    Examples:
      >>> rule = pre_aggregated(clipping(1.0), mean())
      >>> print(rule([[3.0, 4.0], [0.0, 0.0]]).round(3))
      [0.3 0.4]
    """
    longest = _validate.positive(radius=radius)

    def apply(key: Key, rows: Array, ok: Array) -> tuple[Array, Array]:
        del key
        return clipped(rows, norms(rows), longest), ok

    return PreAggregator(apply, lambda num_rows: num_rows, equivariant=True)


def clipped(rows: Array, norm: Array, longest: Array | float) -> Array:
    """Rows of the given norms, shortened to `longest`; NaN where one is not finite."""
    factor = jnp.where(norm > longest, longest / norm, jnp.where(jnp.isnan(longest), jnp.nan, 1.0))
    return jnp.where(finite_rows(rows)[:, None], rows * factor[:, None], jnp.nan)

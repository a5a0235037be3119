"""Clipping of updates, the first step of every guarantee of differential privacy."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer
from fedjax_priv.engine.row_norms import norms
from fedjax_priv.layers.stacking import stateless


def clip(max_norm: float | Array) -> Layer:
    """`x -> x min(1, L / ||x||)`: Euclidean norms of updates `[b, d]` are at most L, within float32 rounding.

    An update whose norm overflows float32 sets `NOT_FINITE`.

    Args:
      max_norm: L, > 0; may be traced.

    Raises:
      ValueError: `max_norm` is not > 0.
    """
    bound = _validate.positive(max_norm=max_norm)

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d"]:
        del key, cohort
        norm = norms(x)
        factor = jnp.where(norm > bound, bound / norm, jnp.where(norm <= bound, 1.0, jnp.nan))
        return x * jnp.where(jnp.isfinite(norm), factor, jnp.nan)[:, None]

    return stateless(encode)

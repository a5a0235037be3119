"""Sizes of rows. Squares of float32 vanish below 1e-19 and overflow above 1e19, so rows are scaled before."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def norms(rows: Float[Array, "g d"], unit: float | Array = 1.0) -> Float[Array, " g"]:
    """Euclidean norms of rows, times a power of two `unit`; rows are scaled before squares can overflow or vanish.

    The scale stays away from 2^-126: where rows are divided before, XLA folds both factors into one, which vanishes.
    """
    scale = jnp.clip(unit_scale(largest_entries(rows)), 2.0**-100, 2.0**100)
    return jnp.sqrt(jnp.square(rows * scale[:, None]).sum(1)) * (unit / scale)


def largest_entries(rows: Float[Array, "g d"]) -> Float[Array, " g"]:
    """Largest magnitude of each row without NaN, over which XLA's maximum on a CPU passes: see `finite_rows`."""
    return jnp.abs(rows).max(1, initial=0.0)


def unit_scale(size: Float[Array, "..."], top: int = 0) -> Float[Array, "..."]:
    """The power of two that brings a size to the binade below `2**top`, if it is within 2**-126 to 2**126.

    A size that is 0 or not finite counts as 1/2.
    """
    # From the bits, in a few operations: `frexp` and `ldexp` are sixty each, and programs have many scales.
    known = jnp.where(jnp.isfinite(size) & (size > 0), size, 0.5)
    width, mantissa = (jnp.int32, 23) if size.dtype == jnp.float32 else (jnp.int64, 52)
    bias = 1 - jnp.finfo(size.dtype).minexp
    exponent = (jax.lax.bitcast_convert_type(known, width) >> mantissa) - (bias - 1)
    return jax.lax.bitcast_convert_type((jnp.clip(top - exponent, -126, 126) + bias) << mantissa, size.dtype)

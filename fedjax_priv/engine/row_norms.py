"""Sizes of rows. Squares of float32 vanish below 1e-19 and overflow above 1e19, so rows are scaled before."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def norms(rows: Float[Array, "g d"]) -> Float[Array, " g"]:
    """Euclidean norms of rows, which are scaled before squares can overflow or vanish."""
    scale = unit_scale(largest_entries(rows))
    return jnp.sqrt(jnp.square(rows * scale[:, None]).sum(1)) / scale


def largest_entries(rows: Float[Array, "g d"]) -> Float[Array, " g"]:
    """Largest magnitude of each row; NaN if any is."""
    return jnp.abs(rows).max(1, initial=0.0)


def unit_scale(size: Float[Array, "..."], top: int = 0) -> Float[Array, "..."]:
    """The power of two that brings a size to the binade below `2**top`, if it is within 2**-126 to 2**126.

    A size that is 0 or not finite counts as 1/2.
    """
    exponent = jnp.frexp(jnp.where(jnp.isfinite(size) & (size > 0), size, 0.5))[1]
    return jnp.ldexp(jnp.ones_like(size), jnp.clip(top - exponent, -126, 126))

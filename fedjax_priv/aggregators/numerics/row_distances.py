"""Where rows lie: inner products and distances that a few rows far away, or not finite, do not spoil."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv.aggregators.numerics.column_blocks import dot, gram

FAR = float(jnp.finfo(jnp.float32).max) / 8
"""A squared distance from which on a row is infinitely far: sums of a few of them leave float32."""


class Geometry(NamedTuple):
    """Inner products of rows about a row that lies amid them.

    Rounding is relative to distances from there, so the origin must not be what Byzantine rows can move, as a mean is.
    """

    near: Bool[Array, " g"]  # there and not infinitely far
    gram: Float[Array, "g g"]  # 0 where a row is not near
    norm: Float[Array, " g"]  # squared, about zero


def geometry(rows: Float[Array, "g d"], ok: Bool[Array, " g"]) -> Geometry:
    """A row that is not finite, or has a squared distance beyond `FAR` (4e37), is infinitely far."""
    about_zero = gram(rows, jnp.zeros_like(rows[0]))
    norm = jnp.diagonal(about_zero)
    distance = squared_distances(about_zero, ok & (norm < FAR))
    about = gram(rows, rows[_amid(distance)])
    near = ok & (jnp.diagonal(about) < FAR)
    return Geometry(near, jnp.where(both(near), about, 0.0), norm)


def distances(rows: Float[Array, "g d"], ok: Bool[Array, " g"]) -> Float[Array, "g g"]:
    """Squared distances between rows; infinite where one is missing or infinitely far, to itself too."""
    places = geometry(rows, ok)
    return squared_distances(places.gram, places.near)


def squared_distances(products: Float[Array, "g g"], near: Bool[Array, " g"]) -> Float[Array, "g g"]:
    """From inner products about any origin; symmetric, infinite where one is not `near`, to itself too."""
    norm = jnp.diagonal(products)
    square = jnp.maximum(norm[:, None] + norm[None, :] - (products + products.T), 0.0)
    away = jnp.where(jnp.eye(len(near), dtype=bool), 0.0, square)
    return jnp.where(both(near), away, jnp.inf)


def distances_to_sum(products: Float[Array, "g g"], coefficients: Float[Array, " g"]) -> Float[Array, " g"]:
    """Of each row `y_l` to `sum_l c_l y_l`, from inner products of rows; known up to 1e-3 of the largest."""
    along = dot(products, coefficients)
    return jnp.sqrt(jnp.maximum(jnp.diagonal(products) - 2 * along + dot(coefficients, along), 0.0))


def both(mask: Bool[Array, " g"]) -> Bool[Array, "g g"]:
    """Pairs of rows in the mask."""
    return mask[:, None] & mask[None, :]


def _amid(distance: Array) -> Array:
    """The row whose median distance to rows that are near is least."""
    near = jnp.isfinite(jnp.diagonal(distance)).sum()
    return jnp.argmin(jnp.sort(distance, 1)[:, (near - 1) // 2])

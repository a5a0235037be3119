"""Inner products and distances of rows, robust to a few rows that are far away or not finite."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv.aggregators.numerics.column_blocks import dot, gram

FAR = float(jnp.finfo(jnp.float32).max) / 8
"""From this squared distance on, a row counts as infinitely far: sums of a few such numbers overflow float32."""


class Geometry(NamedTuple):
    """Inner products of rows relative to a central row.

    Rounding errors scale with distances from that origin, so Byzantine rows must not be able to move it, as they move a
    mean.
    """

    near: Bool[Array, " g"]  # present and not infinitely far
    gram: Float[Array, "g g"]  # 0 where a row is not near
    norm: Float[Array, " g"]  # squared norm of the row itself


def geometry(rows: Float[Array, "g d"], ok: Bool[Array, " g"]) -> Geometry:
    """Rows that are not finite, or whose squared distance exceeds `FAR` (4e37), are not `near`."""
    about_zero = gram(rows, jnp.zeros_like(rows[0]))
    norm = jnp.diagonal(about_zero)
    distance = squared_distances(about_zero, ok & (norm < FAR))
    about = gram(rows, rows[_amid(distance)])
    near = ok & (jnp.diagonal(about) < FAR)
    return Geometry(near, jnp.where(both(near), about, 0.0), norm)


def distances(rows: Float[Array, "g d"], ok: Bool[Array, " g"]) -> Float[Array, "g g"]:
    """Squared distances between rows; infinite where one is missing or infinitely far, also to itself."""
    places = geometry(rows, ok)
    return squared_distances(places.gram, places.near)


def squared_distances(products: Float[Array, "g g"], near: Bool[Array, " g"]) -> Float[Array, "g g"]:
    """From inner products relative to any origin; symmetric, infinite where one is not `near`, also to itself."""
    norm = jnp.diagonal(products)
    square = jnp.maximum(norm[:, None] + norm[None, :] - (products + products.T), 0.0)
    away = jnp.where(jnp.eye(len(near), dtype=bool), 0.0, square)
    return jnp.where(both(near), away, jnp.inf)


def distances_to_sum(products: Float[Array, "g g"], coefficients: Float[Array, " g"]) -> Float[Array, " g"]:
    """Distance of each row `y_l` to `sum_l c_l y_l`, from inner products of rows; error up to 1e-3 of the largest."""
    along = dot(products, coefficients)
    return jnp.sqrt(jnp.maximum(jnp.diagonal(products) - 2 * along + dot(coefficients, along), 0.0))


def both(mask: Bool[Array, " g"]) -> Bool[Array, "g g"]:
    """Pairs of rows that are both in the mask."""
    return mask[:, None] & mask[None, :]


def _amid(distance: Array) -> Array:
    """The row with the smallest median distance to near rows."""
    near = jnp.isfinite(jnp.diagonal(distance)).sum()
    return jnp.argmin(jnp.sort(distance, 1)[:, (near - 1) // 2])

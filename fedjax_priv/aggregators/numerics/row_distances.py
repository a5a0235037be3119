"""Inner products and distances of rows, robust to a few rows that are far away or not finite.

Squares of float32 vanish below 1e-19 and overflow above 1e19, so rows are scaled by a power of two first: by the size
of the middle row, and then by the middle size of what is left of them relative to a central row. A minority of rows
cannot move either. Distances from 1e-10 to 1e23 times the middle one are kept; beyond that a row is infinitely far.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv.aggregators.numerics.column_blocks import dot, gram
from fedjax_priv.engine.row_norms import largest_entries, unit_scale

FAR = float(jnp.finfo(jnp.float32).max) / 8
"""From this squared distance on, a row counts as infinitely far: sums of a few such numbers overflow float32."""

MIDDLE = -30
"""The middle size is scaled to 2**MIDDLE: there is more room above it than below."""


class Geometry(NamedTuple):
    """Inner products of scaled rows relative to a central row.

    Rounding errors scale with distances from that origin, so Byzantine rows must not be able to move it, as they move a
    mean.
    """

    near: Bool[Array, " g"]  # present and not infinitely far
    gram: Float[Array, "g g"]  # of `(row - central row) * scale`; 0 where a row is not near
    scale: Float[Array, ""]
    equal: Bool[Array, " g"]  # to the central row, and near


def geometry(rows: Float[Array, "g d"], ok: Bool[Array, " g"]) -> Geometry:
    """Rows that are not finite, or whose scaled squared distance exceeds `FAR` (4e37), are not `near`."""
    about_zero = gram(rows, jnp.zeros_like(rows[0]), _scale(largest_entries(rows), ok))
    distance = squared_distances(about_zero, ok & (jnp.diagonal(about_zero) < FAR))
    origin = rows[jnp.argmin(median_distances(distance))]
    size = largest_entries(rows - origin[None, :])
    scale = _scale(size, ok)
    about = gram(rows, origin, scale)
    near = ok & (jnp.diagonal(about) < FAR)
    return Geometry(near, jnp.where(both(near), about, 0.0), scale, near & (size == 0))


def _scale(size: Float[Array, " g"], ok: Bool[Array, " g"]) -> Float[Array, ""]:
    """Of the middle size; of the middle one of those that are not 0 if it is 0."""
    middle = _middle(size, ok)
    return unit_scale(jnp.where(middle > 0, middle, _middle(size, ok & (size > 0))), MIDDLE)


def _middle(size: Float[Array, " g"], ok: Bool[Array, " g"]) -> Float[Array, ""]:
    known = ok & jnp.isfinite(size)
    return jnp.sort(jnp.where(known, size, jnp.inf))[jnp.maximum(known.sum() - 1, 0) // 2]


def distances(rows: Float[Array, "g d"], ok: Bool[Array, " g"]) -> Float[Array, "g g"]:
    """Squared distances between scaled rows; infinite where one is missing or infinitely far, also to itself."""
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


def median_distances(distance: Float[Array, "g g"]) -> Float[Array, " g"]:
    """Median of each row's distances to near rows, itself included; infinite for a row that is not near."""
    near = jnp.isfinite(jnp.diagonal(distance)).sum()
    return jnp.sort(distance, 1)[:, (near - 1) // 2]

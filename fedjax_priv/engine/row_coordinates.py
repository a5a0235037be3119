"""A few long rows, written in an orthonormal basis of their span."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from fedjax_priv.engine.row_norms import largest_entries, unit_scale
from fedjax_priv.engine.side_by_side import by_platform

WIDTH = 2**11
"""Columns in a block: 16 rows of them fit a core's cache."""


def coordinates(rows: Float[Array, "k d"]) -> Float[Array, "k k"]:
    """Rows with the same inner products and linear dependencies, but of `k` coordinates.

    The error of each row is a few roundings of its own length, however small it is next to others and whether or not
    rows depend on each other: modified Gram-Schmidt (Bjorck 1967; its triangular factor is as exact as Householder's)
    on blocks of columns, then on the factors of the blocks. Inner products of rows would lose half of the digits.
    """
    num_rows, d = rows.shape
    scale = unit_scale(largest_entries(rows))
    cut = jnp.pad(rows * scale[:, None], ((0, 0), (0, -d % WIDTH))).reshape(num_rows, -1, WIDTH).swapaxes(0, 1)
    factors = by_platform(lambda cut: lax.map(_factor, cut), jax.vmap(_factor), cut)
    return _factor(factors.swapaxes(0, 1).reshape(num_rows, -1)) / scale[:, None]


def in_basis(rows: Float[Array, "k d"]) -> tuple[Float[Array, "k k"], Float[Array, "k d"]]:
    """Coordinates as those of `coordinates`, and the orthonormal basis: `rows = coordinates @ basis`. `k <= d`.

    Householder's basis is orthonormal whatever the rows are, which that of Gram-Schmidt is not.
    """
    # LAPACK minds overflow; where XLA expands the decomposition itself, squares of large entries may be infinite.
    scale = unit_scale(largest_entries(rows))
    basis, factor = jnp.linalg.qr((rows * scale[:, None]).T)
    return factor.T / scale[:, None], basis.T


def _factor(rows: Float[Array, "k w"]) -> Float[Array, "k k"]:
    """One basis vector after the other, each along what is left of a row."""

    def step(left: Array, place: Array) -> tuple[Array, Array]:
        pivot = left[place]
        length = jnp.sqrt(jnp.square(pivot).sum())
        direction = jnp.where(length > 0, pivot / length, pivot)
        along = jnp.matmul(left, direction, precision=lax.Precision.HIGHEST)
        return left - along[:, None] * direction[None, :], along

    return lax.scan(step, rows, jnp.arange(len(rows)))[1].T

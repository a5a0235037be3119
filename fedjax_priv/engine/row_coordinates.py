"""A few long rows, written in an orthonormal basis of their span."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from fedjax_priv.engine.row_norms import largest_entries, unit_scale
from fedjax_priv.engine.side_by_side import by_platform

WIDTH = 2**11
"""Columns in a block: 16 rows of them fit a core's cache."""

PANEL = 32
"""Rows that are orthogonalised one by one before all others are read."""


def coordinates(rows: Float[Array, "k d"]) -> Float[Array, "k k"]:
    """Rows with the same inner products and linear dependencies, but of `k` coordinates.

    The error of each row is a few roundings of its own length, however small it is next to others and whether or not
    rows depend on each other: modified Gram-Schmidt (Bjorck 1967; its triangular factor is as exact as Householder's)
    on blocks of columns, then on the factors of the blocks. Inner products of rows would lose half of the digits.
    """
    num_rows, d = rows.shape
    scale = unit_scale(largest_entries(rows))
    cut = jnp.pad(rows * scale[:, None], ((0, 0), (0, -d % WIDTH))).reshape(num_rows, -1, WIDTH).swapaxes(0, 1)
    factors = by_platform(lambda cut: lax.map(_one_by_one, cut), jax.vmap(_in_panels), cut)
    return by_platform(_one_by_one, _in_panels, factors.swapaxes(0, 1).reshape(num_rows, -1)) / scale[:, None]


def in_basis(rows: Float[Array, "k d"]) -> tuple[Float[Array, "k k"], Float[Array, "k d"]]:
    """Coordinates as those of `coordinates`, and the orthonormal basis: `rows = coordinates @ basis`. `k <= d`.

    Householder's basis is orthonormal whatever the rows are, which that of Gram-Schmidt is not.
    """
    # LAPACK minds overflow; where XLA expands the decomposition itself, squares of large entries may be infinite.
    scale = unit_scale(largest_entries(rows))
    basis, factor = jnp.linalg.qr((rows * scale[:, None]).T)
    return factor.T / scale[:, None], basis.T


def _one_by_one(rows: Float[Array, "k w"]) -> Float[Array, "k k"]:
    return _directions(rows)[1]


def _in_panels(rows: Float[Array, "k w"]) -> Float[Array, "k k"]:
    """What is left of all rows is read once for each panel of rows. In a cache of a CPU this would take longer."""
    num_rows = len(rows)
    if num_rows <= PANEL:
        return _one_by_one(rows)

    def step(left: Array, start: Array) -> tuple[Array, Array]:
        directions, _ = _directions(lax.dynamic_slice_in_dim(left, start, PANEL))
        along = _along_in_turn(left, directions)
        return left - jnp.matmul(along, directions, precision=lax.Precision.HIGHEST), along

    padded = jnp.pad(rows, ((0, -num_rows % PANEL), (0, 0)))
    along = lax.scan(step, padded, jnp.arange(0, len(padded), PANEL))[1]
    return along.swapaxes(0, 1).reshape(len(padded), -1)[:num_rows, :num_rows]


def _directions(rows: Float[Array, "p w"]) -> tuple[Float[Array, "p w"], Float[Array, "p p"]]:
    """One basis vector after the other, each along what is left of a row (0: nothing is), and rows along them."""

    def step(left: Array, place: Array) -> tuple[Array, tuple[Array, Array]]:
        pivot = left[place]
        length = jnp.sqrt(jnp.square(pivot).sum())
        direction = jnp.where(length > 0, pivot / length, pivot)
        along = jnp.matmul(left, direction, precision=lax.Precision.HIGHEST)
        return left - along[:, None] * direction[None, :], (direction, along)

    directions, along = lax.scan(step, rows, jnp.arange(len(rows)))[1]
    return directions, along.T


def _along_in_turn(rows: Float[Array, "k w"], directions: Float[Array, "p w"]) -> Float[Array, "k p"]:
    """How long rows are along each direction once their parts along the directions before it are gone.

    Directions of rows that nearly depend on each other are not orthogonal. The inverse of the triangle has entries of
    at most 1 in any case, since removing a part makes no vector longer (compact WY form; Bjorck 1994).
    """
    product = lambda a: jnp.matmul(a, directions.T, precision=lax.Precision.HIGHEST)
    triangle = jnp.triu(product(directions), 1).T
    return solve_triangular(triangle, product(rows).T, lower=True, unit_diagonal=True).T

"""Work on rows `[g, d]` in blocks of columns that fit a core's cache."""

import functools
from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from fedjax_priv.engine.side_by_side import by_platform

BLOCK = 2**15
"""Elements in a block: 32 rows of 1,024 columns. A program for another platform than a CPU has one block."""

LEAST_WIDTH = 256
MOST_UNROLLED = 64
"""Up to this many rows, a loop over rows is unrolled into one fusion."""


def dot(a: Array, b: Array) -> Array:
    """`a @ b` in full float32 on every device."""
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def _cut(rows: Array) -> tuple[int, int]:
    """Width of a block and number of whole blocks, at least two; the columns that remain come after them.

    XLA may recompute a value that no loop produces for every use of it.
    """
    num_rows, num_columns = rows.shape
    width = min(max(LEAST_WIDTH, BLOCK // max(num_rows, 1)), max(1, num_columns // 2))
    return width, num_columns // width


def map_columns(f: Callable[..., Array], rows: Float[Array, "g d"], *others: Float[Array, "... d"]) -> Array:
    """`f(rows [g, w], *others [..., w]) -> [..., w]` block by block: `[..., d]`. `f` works column by column."""
    return by_platform(functools.partial(_map_blocks, f), f, rows, *others)


def _map_blocks(f: Callable[..., Array], *arrays: Array) -> Array:
    width, num_blocks = _cut(arrays[0])
    left = f(*(a[..., num_blocks * width :] for a in arrays))
    if num_blocks == 0:
        return left

    def fill(i: Array, out: Array) -> Array:
        block = f(*(lax.dynamic_slice_in_dim(a, i * width, width, -1) for a in arrays))
        return lax.dynamic_update_slice_in_dim(out, block, i * width, -1)

    out = jnp.zeros((*left.shape[:-1], arrays[0].shape[-1]), left.dtype).at[..., num_blocks * width :].set(left)
    return lax.fori_loop(0, num_blocks, fill, out)


def weighted_sum(weights: Float[Array, " g"], rows: Float[Array, "g d"]) -> Float[Array, " d"]:
    """The weighted sum of rows; rows of weight 0 may hold anything."""
    if len(rows) > MOST_UNROLLED:
        return _product(weights, rows, weights != 0)
    zero = jnp.zeros_like(rows[0])
    return sum((jnp.where(w != 0, w * row, zero) for w, row in zip(weights, rows, strict=True)), start=zero)


def weighted_sums(
    weights: Float[Array, "p g"], rows: Float[Array, "g d"], near: Bool[Array, " g"]
) -> Float[Array, "p d"]:
    """Several weighted sums of rows; a sum that gives weight to a row that is not `near` is NaN."""
    spoilt = ((weights != 0) & ~near[None, :]).any(1)
    return jnp.where(spoilt[:, None], jnp.nan, _product(weights, rows, near))


def _product(weights: Array, rows: Array, keep: Array) -> Array:
    zero = jnp.zeros((), rows.dtype)
    return map_columns(lambda block: dot(weights, jnp.where(keep[:, None], block, zero)), rows)


def gram(rows: Float[Array, "g d"], origin: Float[Array, " d"], scale: float | Array = 1.0) -> Float[Array, "g g"]:
    """Inner products of `(rows - origin) * scale`."""
    return by_platform(_sum_of_blocks, _products, rows, origin, jnp.float32(scale))


def _products(rows: Array, origin: Array, scale: Array) -> Array:
    away = (rows - origin[None, :]) * scale
    return dot(away, away.T)


def _sum_of_blocks(rows: Array, origin: Array, scale: Array) -> Array:
    width, num_blocks = _cut(rows)

    def add(i: Array, total: Array) -> Array:
        block = lambda a: lax.dynamic_slice_in_dim(a, i * width, width, -1)
        return total + _products(block(rows), block(origin), scale)

    left = _products(rows[:, num_blocks * width :], origin[num_blocks * width :], scale)
    return lax.fori_loop(0, num_blocks, add, left) if num_blocks else left

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
    """Width of a block and number of whole blocks, at least two of two columns or more; the rest comes after them.

    XLA may recompute a value that no loop produces for every use of it.
    """
    num_rows, num_columns = rows.shape
    width = min(max(LEAST_WIDTH, BLOCK // max(num_rows, 1)), max(1, num_columns // 2))
    return width, num_columns // width


def map_columns(f: Callable[..., Array], rows: Float[Array, "g d"], *others: Float[Array, "... d"]) -> Array:
    """`f(rows [g, w], *others [..., w]) -> [w]` block by block: `[d]`. `f` works column by column."""
    return by_platform(functools.partial(_map_blocks, f), f, rows, *others)


def _map_blocks(f: Callable[..., Array], *arrays: Array) -> Array:
    """The last block also has columns of the one before, so that all are as wide."""
    width, _ = _cut(arrays[0])
    if not (d := arrays[0].shape[1]):
        return f(*arrays)

    def fill(i: Array, out: Array) -> Array:
        start = jnp.minimum(i * width, d - width)
        block = f(*(lax.dynamic_slice_in_dim(a, start, width, -1) for a in arrays))
        return lax.dynamic_update_slice_in_dim(out, block, start, -1)

    return lax.fori_loop(0, -(-d // width), fill, jnp.zeros(d, arrays[0].dtype))


def replace_columns(f: Callable[[Array], Array], rows: Float[Array, "g d"]) -> Float[Array, "g d"]:
    """`f(rows [g, w]) -> [g, w]` block by block; `f` works column by column.

    On a CPU, blocks are written over the rows, or over a copy where these are needed afterwards: XLA writes zeros to a
    new array first, which takes longer than the rest.
    """
    return by_platform(functools.partial(_replace_blocks, f), f, rows)


def _replace_blocks(f: Callable[[Array], Array], rows: Array) -> Array:
    width, num_blocks = _cut(rows)
    done = num_blocks * width

    def fill(i: Array, out: Array) -> Array:
        block = f(lax.dynamic_slice_in_dim(out, i * width, width, 1))
        return lax.dynamic_update_slice_in_dim(out, block, i * width, 1)

    left = lax.dynamic_update_slice_in_dim(rows, f(rows[:, done:]), done, 1)
    return lax.fori_loop(0, num_blocks, fill, left) if num_blocks else left


def weighted_sum(weights: Float[Array, " g"], rows: Float[Array, "g d"]) -> Float[Array, " d"]:
    """The weighted sum of rows; rows of weight 0 may hold anything."""
    if len(rows) > MOST_UNROLLED:
        keep, zero = (weights != 0)[:, None], jnp.zeros((), rows.dtype)
        return map_columns(lambda block: dot(weights, jnp.where(keep, block, zero)), rows)
    zero = jnp.zeros_like(rows[0])
    return sum((jnp.where(w != 0, w * row, zero) for w, row in zip(weights, rows, strict=True)), start=zero)


def means(members: Bool[Array, "g g"], rows: Float[Array, "g d"], near: Bool[Array, " g"]) -> Float[Array, "g d"]:
    """The mean of the rows that each line of `members` has; NaN if one of them is not `near`, or there are none."""
    spoilt = (members & ~near[None, :]).any(1)[:, None]
    weights, zero = members.astype(rows.dtype), jnp.zeros((), rows.dtype)
    number = weights.sum(1)[:, None]

    def of_block(block: Array) -> Array:
        return jnp.where(spoilt, jnp.nan, dot(weights, jnp.where(near[:, None], block, zero)) / number)

    return replace_columns(of_block, rows)


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

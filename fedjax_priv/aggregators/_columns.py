"""Work on rows `[g, d]` in blocks of columns that stay in a core's cache."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

BLOCK = 2**15
"""Elements in a block: 32 rows of 1,024 columns."""

LEAST_WIDTH = 256
EXACT = lax.Precision.HIGHEST
"""Products in full float32 on every device."""


def _cut(rows: Array) -> tuple[int, int]:
    """Width of a block, and how many of them there are before the columns that are left."""
    num_rows, num_columns = rows.shape
    width = max(LEAST_WIDTH, BLOCK // max(num_rows, 1))
    return width, num_columns // width


def map_columns(f: Callable[..., Array], rows: Float[Array, "g d"], *vectors: Float[Array, " d"]) -> Array:
    """`f(rows [g, w], *vectors [w]) -> [..., w]` block by block: `[..., d]`. `f` works column by column."""
    width, num_blocks = _cut(rows)
    arrays = (rows, *vectors)
    left = f(*(a[..., num_blocks * width :] for a in arrays))
    if num_blocks == 0:
        return left
    blocks = lax.map(
        lambda i: f(*(lax.dynamic_slice_in_dim(a, i * width, width, -1) for a in arrays)), jnp.arange(num_blocks)
    )
    whole = jnp.moveaxis(blocks, 0, -2).reshape(*left.shape[:-1], num_blocks * width)
    return jnp.concatenate([whole, left], -1)


def sum_columns(f: Callable[..., Array], rows: Float[Array, "g d"], *vectors: Float[Array, " d"]) -> Array:
    """The sum of `f(rows [g, w], *vectors [w])` over blocks of columns."""
    width, num_blocks = _cut(rows)
    arrays = (rows, *vectors)
    left = f(*(a[..., num_blocks * width :] for a in arrays))

    def add(i: Array, total: Array) -> Array:
        return total + f(*(lax.dynamic_slice_in_dim(a, i * width, width, -1) for a in arrays))

    return lax.fori_loop(0, num_blocks, add, left) if num_blocks else left


def combine(weights: Float[Array, " g"], rows: Float[Array, "g d"]) -> Float[Array, " d"]:
    """The weighted sum of rows; those of weight 0 may hold anything."""
    return _product(weights, rows, weights != 0)


def mix(weights: Float[Array, "p g"], rows: Float[Array, "g d"], near: Bool[Array, " g"]) -> Float[Array, "p d"]:
    """Several weighted sums of rows; one with a weight on a row that is not `near` is NaN."""
    spoilt = ((weights != 0) & ~near[None, :]).any(1)
    return jnp.where(spoilt[:, None], jnp.nan, _product(weights, rows, near))


def _product(weights: Array, rows: Array, keep: Array) -> Array:
    zero = jnp.zeros((), rows.dtype)
    return map_columns(lambda block: jnp.matmul(weights, jnp.where(keep[:, None], block, zero), precision=EXACT), rows)


def gram(rows: Float[Array, "g d"], origin: Float[Array, " d"]) -> Float[Array, "g g"]:
    """Inner products of `rows - origin`."""

    def products(block: Array, origin: Array) -> Array:
        away = block - origin[None, :]
        return jnp.matmul(away, away.T, precision=EXACT)

    return sum_columns(products, rows, origin)


def squared_norms(rows: Float[Array, "g d"], origin: Float[Array, " d"]) -> Float[Array, " g"]:
    """Squared norms of `rows - origin`, from differences."""

    def norms(block: Array, origin: Array) -> Array:
        return jnp.square(block - origin[None, :]).sum(1)

    return sum_columns(norms, rows, origin)


def norms(rows: Float[Array, "g d"]) -> Float[Array, " g"]:
    """Norms of rows, also of those whose squares float32 does not hold; NaN or infinite for rows not finite."""
    scale = jnp.float32(2.0**-64)

    def squares(block: Array) -> Array:
        return jnp.stack([jnp.square(block).sum(1), jnp.square(block * scale).sum(1)])

    plain, scaled = jnp.sqrt(sum_columns(squares, rows))
    return jnp.where(jnp.isinf(plain), scaled / scale, plain)

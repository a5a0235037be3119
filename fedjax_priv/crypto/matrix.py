"""Products of matrices over F_q, at the rate of products of floating-point numbers.

Elements are cut into limbs, whose products add up to integers that a float holds exactly, in any order. On a CPU these
are two limbs of 16 bits in float64. Elsewhere they are four of 8 bits in float32, which the shorter factors of TF32 and
bfloat16 hold, too.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, UInt32

from fedjax_priv.crypto import field
from fedjax_priv.engine.side_by_side import by_platform, side_by_side


class Limbs(NamedTuple):
    """How an element is cut."""

    bits: int  # of a limb
    dtype: Any  # of limbs and of sums of their products
    exact_terms: int  # products of two limbs whose sum it holds

    @property
    def count(self) -> int:
        """Limbs of an element."""
        return 32 // self.bits


HALVES = Limbs(16, jnp.float64, 2**21)
QUARTERS = Limbs(8, jnp.float32, 2**8)
MAX_TERMS = 2**14
"""Of a sum: products of limbs of `QUARTERS` then add up to less than q, and those of `HALVES` to less than 2**46."""


def matmul(a: UInt32[Array, "n m"], b: UInt32[Array, "m w"]) -> UInt32[Array, "n w"]:
    """The product in F_q, in tiles of columns of `b` that fit the cache of a CPU core or an accelerator's memory.

    Args:
      a: elements; its limbs are held whole.
      b: elements.

    Raises:
      ValueError: more than `MAX_TERMS` terms in a sum.

    Examples:
      >>> a, b = jnp.array([[2, 2**31]], jnp.uint32), jnp.array([[3], [2]], jnp.uint32)
      >>> print(matmul(a, b))  # 6 + 2**32 modulo q
      [[11]]
    """
    if a.shape[1] > MAX_TERMS:
        raise ValueError(f"a must have at most {MAX_TERMS} columns, got {a.shape[1]}")
    return by_platform(functools.partial(_product, HALVES), functools.partial(_product, QUARTERS), a, b)


def _product(limbs: Limbs, a: UInt32[Array, "n m"], b: UInt32[Array, "m w"]) -> UInt32[Array, "n w"]:
    rows, terms, columns = *a.shape, b.shape[1]
    chunks = -(-terms // limbs.exact_terms)
    size = -(-terms // chunks)

    def in_tiles(most: int, a: Array, b: Array) -> Array:
        tiles = -(-columns // most)
        width = -(-columns // tiles)
        padded = jnp.pad(b, ((0, 0), (0, tiles * width - columns))).reshape(terms, tiles, width)
        left = _cut(limbs, _cut_terms(a.T, chunks, size)).reshape(chunks, size, -1).swapaxes(1, 2)
        tile = lambda part: _of_limbs(limbs, left, _cut(limbs, _cut_terms(part, chunks, size)), rows)
        products = lax.map(tile, jnp.moveaxis(padded, 1, 0))
        return jnp.moveaxis(products, 0, 1).reshape(rows, -1)[:, :columns]

    number_bytes = jnp.dtype(limbs.dtype).itemsize * limbs.count
    with jax.enable_x64(limbs.dtype == jnp.float64):
        return side_by_side(in_tiles, number_bytes * (limbs.count * rows + 2 * terms), columns)(a, b)


def _cut_terms(a: Array, chunks: int, size: int) -> Array:
    """Rows in chunks `[c, s, ...]`, zeros after the last."""
    return jnp.pad(a, ((0, chunks * size - len(a)), (0, 0))).reshape(chunks, size, -1)


def _cut(limbs: Limbs, a: UInt32[Array, "c s w"]) -> Float[Array, "c s l w"]:
    """The limbs of each element, the lowest first."""
    shifts = np.arange(0, 32, limbs.bits, dtype=np.uint32)[None, None, :, None]
    return ((a[:, :, None] >> shifts) & np.uint32(2**limbs.bits - 1)).astype(limbs.dtype)


def _of_limbs(
    limbs: Limbs, left: Float[Array, "c a s"], right: Float[Array, "c s l w"], rows: int
) -> UInt32[Array, "n w"]:
    """All products of limbs as one product of matrices, added up by their power of two."""
    chunks, size, count, width = right.shape
    # JAX would turn a stated dtype of the result to float32 under `vmap`, which traces this again.
    products = lax.dot_general(left, right.reshape(chunks, size, -1), (((2,), (1,)), ((0,), (0,))))
    sums = _added(limbs, products).reshape(count, rows, count, width)
    total = jnp.zeros((rows, width), jnp.uint32)
    for power in reversed(range(2 * count - 1)):
        pairs = [sums[i, :, power - i] for i in range(count) if 0 <= power - i < count]
        total = field.add(field.mul(total, np.uint32(2**limbs.bits)), functools.reduce(field.add, pairs))
    return total


def _added(limbs: Limbs, products: Float[Array, "c a w"]) -> UInt32[Array, "a w"]:
    """The sum over chunks of terms, as elements."""
    if limbs == QUARTERS:
        return products.astype(jnp.uint32).sum(0, dtype=jnp.uint32)
    wide = products[0].astype(jnp.uint64)  # all terms are one chunk; below 2**46
    low, high = wide.astype(jnp.uint32), (wide >> np.uint64(32)).astype(jnp.uint32)
    return field.add(field.canonical(low), np.uint32(5) * high)  # 2**32 = 5

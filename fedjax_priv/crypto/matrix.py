"""Products of matrices over F_q, at the rate of products of small numbers.

Elements are cut into limbs, whose products add up to integers that a number holds exactly, in any order. On a CPU these
are two limbs of 16 bits in float64. Elsewhere they are four of 8 bits, summed in int32.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int32, Int64, UInt32

from fedjax_priv.crypto import field
from fedjax_priv.engine.side_by_side import by_platform, side_by_side

MAX_TERMS = 2**14
"""Of a sum: products of bytes then add up to at most 2**30 in magnitude, and those of halves to 2**44."""
_Times = Callable[[Array], Callable[[Array], Array]]
"""A matrix, and what it is multiplied by."""


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
    on_cpu = functools.partial(_in_tiles, _by_halves, 32 * (a.shape[0] + a.shape[1]))
    elsewhere = functools.partial(_in_tiles, _by_bytes, 20 * a.shape[0] + 12 * a.shape[1])
    return by_platform(on_cpu, elsewhere, a, b)


def _in_tiles(times: _Times, column_bytes: int, a: UInt32[Array, "n m"], b: UInt32[Array, "m w"]) -> Array:
    columns = b.shape[1]

    def in_tiles(most: int, a: Array, b: Array) -> Array:
        tiles = -(-columns // most)
        width = -(-columns // tiles)
        padded = jnp.pad(b, ((0, 0), (0, tiles * width - columns))).reshape(len(b), tiles, width)
        products = lax.map(times(a), jnp.moveaxis(padded, 1, 0))
        return jnp.moveaxis(products, 0, 1).reshape(len(a), -1)[:, :columns]

    with jax.enable_x64(times is _by_halves):
        return side_by_side(in_tiles, column_bytes, columns)(a, b)


def _by_halves(a: UInt32[Array, "n m"]) -> Callable[[UInt32[Array, "m w"]], UInt32[Array, "n w"]]:
    """All products of limbs as one product of matrices."""
    limbs = lambda a: jnp.moveaxis(lax.bitcast_convert_type(_with_signs(a, 16), jnp.int16), -1, 0).astype(jnp.float64)
    left = limbs(a).reshape(-1, a.shape[1])

    def of_tile(b: Array) -> Array:
        right = jnp.moveaxis(limbs(b), 0, 1).reshape(len(b), -1)
        # JAX would turn a stated dtype of the result to float32 under `vmap`, which traces this again.
        sums = lax.dot_general(left, right, (((1,), (0,)), ((), ())))
        (low, middle), (other, high) = sums.astype(jnp.int64).reshape(2, len(a), 2, -1).swapaxes(1, 2)
        return _reduced(low + 5 * high + ((middle + other) << 16))  # 2**32 = 5

    return of_tile


def _by_bytes(a: UInt32[Array, "n m"]) -> Callable[[UInt32[Array, "m w"]], UInt32[Array, "n w"]]:
    """As `a b = sum_j (a 2**(8 j)) b_j`, each limb of the result is one sum; GPUs multiply no unsigned bytes."""
    shifts = np.arange(0, 32, 8, dtype=np.uint32)
    alike = jnp.broadcast_to(a[None, :, :, None], (4, *a.shape, 4))  # so that one kernel computes them
    powers = _with_signs(field.mul(alike, 2 ** shifts[None, None, None]), 8) >> shifts[:, None, None, None]
    left = lax.bitcast_convert_type(powers.astype(jnp.uint8), jnp.int8).reshape(4 * len(a), -1)

    def of_tile(b: Array) -> Array:
        right = lax.bitcast_convert_type(_with_signs(b.T, 8), jnp.int8).reshape(b.shape[1], -1)
        sums = lax.dot_general(left, right, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32)
        return _weighed(sums.reshape(4, len(a), -1))

    return of_tile


def _with_signs(a: UInt32[Array, "*s"], bits: int) -> UInt32[Array, "*s"]:
    """An integer congruent to each element, whose limbs of so many bits are written with signs, in two's complement."""
    half = np.uint32(sum(2 ** (at + bits - 1) for at in range(0, 32, bits)))  # the least limb is -2**(bits - 1)
    above = a + half
    return jnp.where(above < half, above + np.uint32(5), above) ^ half  # 2**32 = 5


def _weighed(sums: Int32[Array, "4 n w"]) -> UInt32[Array, "n w"]:
    """The element with these limbs."""
    with jax.enable_x64(True):
        wide = lax.convert_element_type(sums, jnp.int64)
        return _reduced(functools.reduce(lax.add, [wide[i] << np.int64(8 * i) for i in range(4)]))


def _reduced(total: Int64[Array, "n w"]) -> UInt32[Array, "n w"]:
    """The element congruent to an integer of magnitude below 2**62."""
    return field.reduced(lax.convert_element_type(total + np.int64(2**30 * int(field.Q)), jnp.uint64))

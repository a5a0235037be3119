"""Arithmetic modulo q = 2**32 - 5, the largest prime of 32 bits.

An element is a uint32 in [0, q). Since 2**32 = 5 (mod q), an overflow of 32 bits adds 5; only products are wider.
Sums of many elements add their 16-bit halves (`split`, `join`) by plain + over clients, blocks and devices, in any
order.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int32, UInt32, UInt64

from fedjax_priv.engine.side_by_side import by_platform

Q = np.uint32(2**32 - 5)
HALF = (int(Q) - 1) // 2
"""The largest element that stands for a positive integer; the elements above it stand for negative ones."""
MAX_TERMS = 65_536
"""Number of 16-bit halves that add up without overflow of 32 bits."""

_FIVE = np.uint32(5)
Words = UInt32[Array, "..."] | UInt32[np.ndarray, "..."] | np.uint32
"""Any uint32. Arguments of the functions below must be elements, except for `canonical`."""


def canonical(a: Words) -> Array:
    """The element congruent to a uint32."""
    return jnp.minimum(a, a + _FIVE)  # from q on, a + 5 wraps to a - q


def _carried(total: Words, part: Words) -> Array:
    """The element congruent to a sum that wrapped if `total < part`; it must then be below q - 5."""
    return jnp.where(total < part, total + _FIVE, canonical(total))


def add(a: Words, b: Words) -> Array:
    """a + b."""
    return _carried(a + b, b)


def neg(a: Words) -> Array:
    """-a."""
    return jnp.where(a == 0, a, Q - a)


def sub(a: Words, b: Words) -> Array:
    """a - b."""
    return jnp.where(a < b, a - b - _FIVE, a - b)


def product(a: Words, b: Words) -> tuple[Array, Array]:
    """The upper and the lower 32 bits of the product of any two uint32.

    One multiplication of 64-bit integers, whatever `jax_enable_x64` says outside. `lax.mulhi` would take one
    instruction, but jaxlib 0.10.2 cannot partition a program that contains it over devices.
    """
    with jax.enable_x64(True):
        wide = _widened(a) * _widened(b)
        return _narrowed(wide >> np.uint64(32)), _narrowed(wide)


def mul(a: Words, b: Words) -> Array:
    """a b, exact."""
    with jax.enable_x64(True):
        return reduced(_widened(a) * _widened(b))


def reduced(total: UInt64[Array, "..."]) -> Array:
    """The element congruent to a uint64, where `jax_enable_x64` is set."""
    for _ in range(2):  # high 2**32 + low = 5 high + low: below 2**35, then below 2**32 + 30
        total = (total >> np.uint64(32)) * np.uint64(_FIVE) + (total & np.uint64(2**32 - 1))
    return _narrowed(lax.min(total, total - np.uint64(Q)))  # below q, total - q wraps to a larger number


def _widened(a: Words) -> Array:
    return lax.convert_element_type(a, jnp.uint64)


def _narrowed(a: Array) -> Array:
    return lax.convert_element_type(a, jnp.uint32)


def power(base: Words, exponent: Words) -> Array:
    """base ** exponent for an integer exponent of 32 bits; 0 ** 0 is 1."""
    base, exponent = jnp.broadcast_arrays(jnp.asarray(base), jnp.asarray(exponent))

    def square_and_multiply(_: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        result, square, left = state
        return jnp.where((left & 1) == 1, mul(result, square), result), mul(square, square), left >> 1

    return lax.fori_loop(0, 32, square_and_multiply, (jnp.ones_like(base), base, exponent))[0]


def inverse(a: Words) -> Array:
    """1 / a by Fermat's little theorem, a ** (q - 2); the inverse of 0 is 0."""
    return power(a, Q - np.uint32(2))


def split(a: Words) -> tuple[Array, Array]:
    """Low and high 16 bits, each as uint32; up to `MAX_TERMS` of them can be added."""
    return jnp.asarray(a & np.uint32(0xFFFF)), jnp.asarray(a >> np.uint32(16))


def join(low: Words, high: Words) -> Array:
    """The element low + 2**16 high, where low and high are any two uint32, such as sums of halves."""
    return add(canonical(low), add(high << np.uint32(16), (high >> np.uint32(16)) * _FIVE))


def sum(a: Words, axis: int = 0) -> Array:
    """Sum of elements along an axis.

    Raises:
      ValueError: the axis is longer than `MAX_TERMS`.
    """
    if a.shape[axis] > MAX_TERMS:
        raise ValueError(f"a must have at most {MAX_TERMS} terms along axis {axis}, got {a.shape[axis]}")
    return join(*(jnp.sum(half, axis) for half in split(a)))


def prod(a: Words) -> Array:
    """Product of elements along the first axis."""
    one = np.uint32(1)
    row_by_row = lambda a: lax.scan(lambda total, row: (mul(total, row), None), jnp.full_like(a[0], one), a)[0]
    at_once = lambda a: lax.reduce(a, one, mul, (0,))  # XLA on a CPU does not vectorise it
    return by_platform(row_by_row, at_once, jnp.asarray(a))


def psum(a: Words, axis_name: str) -> Array:
    """Sum of each device's element over a named axis of at most `MAX_TERMS` devices, inside `shard_map`."""
    return join(*lax.psum(split(a), axis_name))


def from_signed(z: Int32[Array, "..."]) -> Array:
    """phi(z) = z if z >= 0, else q + z; one to one for abs(z) <= (q - 1) / 2."""
    return jnp.where(z < 0, z.astype(jnp.uint32) - _FIVE, z.astype(jnp.uint32))


def to_signed(a: Words) -> Array:
    """The inverse of `from_signed`: int32 in [-(q - 1) / 2, (q - 1) / 2]."""
    return jnp.where(a > Q // 2, a + _FIVE, jnp.asarray(a)).astype(jnp.int32)

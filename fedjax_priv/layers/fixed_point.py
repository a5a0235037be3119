"""Floats in fixed point, 15 bits before the point and 45 after it, as integers that add to the same bits in any order.

A sum is held in four limbs of 15 bits, int32, which any device has. A CPU adds numbers as 64-bit integers first, in a
quarter to half of the time: 0.24 to 0.9 ns a number and core, where it was 1.1 to 1.4.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int32

LIMB_BITS = 15
FRACTION_BITS = 45
PART_BITS = 20
MOST_PARTS = 2**11
"""Most parts whose sum fits int32."""
MOST_WHOLE = 2**3
"""Most numbers of 60 bits and a sign whose sum fits int64."""

MAX_FIXED_POINT = 2.0**LIMB_BITS
"""Fixed-point sums take magnitudes below this, in steps of 2**-45."""


@jax.custom_jvp
def without_gradient(x: Array) -> Array:
    """`x`, which becomes integers: JAX would take their derivative for 0, though that of the sum is not."""
    return x


@without_gradient.defjvp
def _refuse(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    raise ValueError(
        "a round must not be differentiated where updates become integers, which have no gradient: in a system that "
        "takes `exact`, give exact=False and differentiate forwards, as jax.jvp and jax.jacfwd do"
    )


def limbs_of_sum(x: Float32[Array, "b d"]) -> tuple[Int32[Array, " d"], ...]:
    """Limbs of the sum of rows, of up to 65,535 uploads in all, added as 64-bit integers."""
    mask = 2**LIMB_BITS - 1
    with jax.enable_x64(True):
        whole = (x.astype(jnp.float64) * 2.0**FRACTION_BITS).astype(jnp.int64)
        if len(x) <= MOST_WHOLE:
            total = whole.sum(0)
            high, low = total >> 2 * LIMB_BITS, total
        else:
            low = (whole & (2 ** (2 * LIMB_BITS) - 1)).sum(0)
            high = (whole >> 2 * LIMB_BITS).sum(0) + (low >> 2 * LIMB_BITS)
        limbs = high >> LIMB_BITS, high & mask, (low >> LIMB_BITS) & mask, low & mask
        return tuple(limb.astype(jnp.int32) for limb in limbs)


def to_parts(x: Float[Array, "..."]) -> tuple[Int32[Array, "..."], ...]:
    """`x 2**45`, truncated to an integer, in three parts of 20 bits with the sign of `x`, the highest first; exact."""
    parts, rest = [], x.astype(jnp.float32) * 2.0 ** (FRACTION_BITS - 3 * PART_BITS)  # float16 has no 2**20
    for _ in range(3):
        rest = rest * 2.0**PART_BITS
        part = rest.astype(jnp.int32)
        parts.append(part)
        rest = rest - part.astype(jnp.float32)
    return tuple(parts)


def to_limbs(high: Array, middle: Array, low: Array) -> tuple[Int32[Array, "..."], ...]:
    """Turns sums of up to 2,048 such parts into four limbs of 15 bits with the same value.

    Sums of limbs of up to 65,535 uploads in all still fit int32.
    """
    mask = 2**LIMB_BITS - 1
    return (high >> 5, (middle >> 10) + ((high << 10) & mask), (low >> 15) + ((middle << 5) & mask), low & mask)


def from_limbs(*limbs: Int32[Array, "..."]) -> Float32[Array, "..."]:
    """The float nearest to a sum of limbs of up to 65,535 uploads (within two roundings)."""
    negative = _carry(limbs)[0] < 0
    magnitude = _carry(tuple(jnp.where(negative, -limb, limb) for limb in limbs))
    total = jnp.zeros(negative.shape, jnp.float32)
    for i, limb in reversed(tuple(enumerate(magnitude))):
        total = total + limb.astype(jnp.float32) * MAX_FIXED_POINT**-i
    return jnp.where(negative, -total, total)


def _carry(limbs: tuple[Array, ...]) -> list[Array]:
    """Brings all limbs but the highest into [0, 2**15)."""
    high, *low = limbs
    carried, carry = [], jnp.zeros_like(high)
    for limb in reversed(low):
        # two steps, since limb + carry may overflow int32
        top, bottom = limb >> LIMB_BITS, (limb & (2**LIMB_BITS - 1)) + (carry & (2**LIMB_BITS - 1))
        carry = top + (carry >> LIMB_BITS) + (bottom >> LIMB_BITS)
        carried.append(bottom & (2**LIMB_BITS - 1))
    return [high + carry, *reversed(carried)]

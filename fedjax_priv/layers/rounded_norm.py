"""How long a vector of bounded norm gets when each coordinate is rounded up or down at random."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from fedjax_priv.crypto import field

FAILURE = 2.0**-40
"""Probability that rounding makes a vector longer than `squared_norm_bound`, if not given."""
IN_FLOAT32 = 1 + 2.0**-20
"""By how much `clip` and the product with `levels`, which round, can make a vector longer, at most."""
MAX_VALUE = 2**16 - 1  # whose square fits uint32
_FULL = np.uint32(2**32 - 1)


def squared_norm_bound(max_norm: float, d: int, failure: float = FAILURE) -> int:
    """The largest `||R(x)||^2` that is accepted, for vectors with `||x|| <= max_norm = c` rounded to R(x).

    min(c^2 + d/4 + sqrt(2 log(1/beta)) (c + sqrt(d)/2), (c + sqrt(d))^2), which stochastic rounding R exceeds with
    probability at most beta = `failure` (Kairouz et al. 2021, Proposition 22, from Hoeffding's inequality).
    """
    likely = max_norm**2 + d / 4 + math.sqrt(-2 * math.log(failure)) * (max_norm + math.sqrt(d) / 2)
    return math.floor(min(likely, (max_norm + math.sqrt(d)) ** 2))


def is_within_any(z: Int32[Array, "b d"], bound: int) -> Bool[Array, " b"]:
    """`is_within` for any bound below 2**64 - 1, at the cost of sums of two words; exact too."""
    size = jnp.abs(z).astype(jnp.uint32)
    zeros = np.uint32(0), np.uint32(0)
    high, low = jax.lax.reduce(field.product(size, size), zeros, _saturating_add_of_two_words, (1,))
    most, rest = np.uint32(bound >> 32), np.uint32(bound & 0xFFFFFFFF)
    return (high < most) | ((high == most) & (low <= rest))


def is_within(z: Int32[Array, "b d"], bound: int) -> Bool[Array, " b"]:
    """Whether `sum_l z_l**2 <= bound` for a bound below 65,535**2; exact, so independent of the block size."""
    size = jnp.minimum(jnp.abs(z), MAX_VALUE).astype(jnp.uint32)
    return jax.lax.reduce(size * size, np.uint32(0), _saturating_add, (1,)) <= np.uint32(bound)


def _saturating_add_of_two_words(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """Of numbers below 2**64 - 1, given as (high, low); above that, 2**64 - 1."""
    low = a[1] + b[1]
    carry = (low < a[1]).astype(jnp.uint32)
    high = a[0] + b[0]
    total = high + carry
    full = (high < a[0]) | (total < high)
    return jnp.where(full, _FULL, total), jnp.where(full, _FULL, low)


def _saturating_add(a: Array, b: Array) -> Array:
    total = a + b
    return jnp.where(total < a, _FULL, total)

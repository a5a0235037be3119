"""Normal noise whose tail is long enough for figures of its privacy."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt32

from fedjax_priv.base import Key
from fedjax_priv.crypto.philox_stream import STREAM
from fedjax_priv.crypto.prg import seed_of


def normal(key: Key, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """N(0, 1), of the default type, from 64 random bits each; magnitudes end at 9.16.

    Those of `jax.random.normal` in float32 end at 5.42. A sum beyond 5.42 z C would prove that a client took part, and
    with z = 0.5 it is 3e-4 likely for a client that adds C to one coordinate. A normal number exceeds 9.16 once in 2e19
    draws.

    Examples:
      >>> print(normal(jax.random.key(0), (3,)).shape)
      (3,)
    """
    count = math.prod(shape)
    first = jnp.zeros(1, jnp.uint32)
    high, low, other_high, other_low = STREAM.runs_of_blocks(first, -(-count // 2), seed_of(key), "normal", 0)
    # Two numbers of each block, side by side: whole streams of words would have a GPU compute each block again.
    numbers = jnp.concatenate([of_words(high, low), of_words(other_high, other_low)], 1)
    return numbers[0, :count].reshape(shape)


def of_words(high: UInt32[Array, "..."], low: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """The quantile of a tail of (high 2^32 + low + 1) 2^-65, of which a float32 keeps 24 bits however small it is.

    The last bit of `low` is the sign.
    """
    dtype = jnp.result_type(float)
    fine = (low.astype(dtype) + 1) * 2.0**-32
    size = -jax.scipy.special.ndtri((high.astype(dtype) + fine) * 2.0**-33)
    return jnp.where(low & 1 == 1, size, -size)

"""Normal noise whose tail is long enough for figures of its privacy."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt32

from fedjax_priv.base import Key
from fedjax_priv.crypto.block_stream import Seed
from fedjax_priv.crypto.philox_stream import STREAM
from fedjax_priv.crypto.prg import seed_of
from fedjax_priv.engine.side_by_side import by_platform

PURPOSE = "normal"


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
    of_blocks, of_numbers = (functools.partial(form, count=count) for form in (_two_of_each_block, _one_by_one))
    return by_platform(of_blocks, of_numbers, seed_of(key)).reshape(shape)


def _two_of_each_block(seed: Seed, count: int) -> Float[Array, " {count}"]:
    """From the first two words of all blocks, then from the other two."""
    words = STREAM.runs_of_blocks(jnp.zeros(1, jnp.uint32), -(-count // 2), seed, PURPOSE, 0)
    return jnp.concatenate([of_words(*words[:2]), of_words(*words[2:])], 1)[0, :count]


def _one_by_one(seed: Seed, count: int) -> Float[Array, " {count}"]:
    """The same. A GPU or TPU computes each block twice, and writes no words to memory."""
    number, half = jnp.arange(count, dtype=jnp.uint32), np.uint32(-(-count // 2))
    words = STREAM.blocks(jnp.where(number < half, number, number - half), seed, PURPOSE, 0)
    return of_words(*(jnp.where(number < half, *pair) for pair in zip(words[:2], words[2:], strict=True)))


def of_words(high: UInt32[Array, "..."], low: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """The quantile of a tail of (high 2^32 + low + 1) 2^-65, of which a float32 keeps 24 bits however small it is.

    The last bit of `low` is the sign.
    """
    dtype = jnp.result_type(float)
    fine = (low.astype(dtype) + 1) * 2.0**-32
    size = -jax.scipy.special.ndtri((high.astype(dtype) + fine) * 2.0**-33)
    return jnp.where(low & 1 == 1, size, -size)

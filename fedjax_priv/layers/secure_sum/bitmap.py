"""Sets of coordinates, one bit each."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, UInt32

from fedjax_priv.layers.group_sums import counted


def pack(chosen: Bool[Array, " d"]) -> UInt32[Array, " w"]:
    """32 coordinates per word; the k-th bits of all words are a run of coordinates."""
    words = -(-chosen.size // 32)
    rows = jnp.pad(chosen, (0, 32 * words - chosen.size)).reshape(32, words).astype(jnp.uint32)
    return (rows << jnp.arange(32, dtype=jnp.uint32)[:, None]).sum(0, dtype=jnp.uint32)


def unpack(bitmap: UInt32[Array, " w"], d: int) -> Bool[Array, " d"]:
    """The inverse of `pack`."""
    return ((bitmap[None, :] >> jnp.arange(32, dtype=jnp.uint32)[:, None]) & 1).reshape(-1)[:d].astype(bool)


def bits_with(bitmaps: UInt32[Array, "b w"], d: int) -> UInt32[Array, " b"]:
    """Bits of messages of a bitmap of `d` coordinates, and of 32 for each that is in it.

    Raises:
      ValueError: a message of all coordinates would have 2**32 bits or more.
    """
    counted(33 * d)
    return jnp.uint32(d) + 32 * jax.lax.population_count(bitmaps).sum(1, dtype=jnp.uint32)

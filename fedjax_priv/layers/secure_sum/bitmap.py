"""Sets of coordinates, one bit each."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, UInt32


def pack(chosen: Bool[Array, " d"]) -> UInt32[Array, " w"]:
    """32 coordinates per word; the k-th bits of all words are a run of coordinates."""
    words = -(-chosen.size // 32)
    rows = jnp.pad(chosen, (0, 32 * words - chosen.size)).reshape(32, words).astype(jnp.uint32)
    return (rows << jnp.arange(32, dtype=jnp.uint32)[:, None]).sum(0, dtype=jnp.uint32)


def unpack(bitmap: UInt32[Array, " w"], d: int) -> Bool[Array, " d"]:
    """The inverse of `pack`."""
    return ((bitmap[None, :] >> jnp.arange(32, dtype=jnp.uint32)[:, None]) & 1).reshape(-1)[:d].astype(bool)

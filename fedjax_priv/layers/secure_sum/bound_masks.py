"""Masks that a client shares with each member of a committee, bound to the set of coordinates it sends.

The seed of a mask is `r_iu = PRF(k_iu, digest of b_i)`, k_iu the key that client i and member u agree on, b_i the
client's bitmap. A member that is shown another bitmap expands an unrelated mask.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt32

from fedjax_priv.crypto import key_agreement
from fedjax_priv.crypto.prg import Round, expand, philox
from fedjax_priv.layers.secure_sum import bitmap
from fedjax_priv.layers.secure_sum.signed_sum import signed_sum


def digest(words: UInt32[Array, " w"]) -> UInt32[Array, " 2"]:
    """Two words that tell bitmaps apart, each a sum of hashes of a word and its place.

    SIMULATION-GRADE: whoever tries may find two bitmaps of one digest. A deployment takes SHA-256.
    """
    place = jnp.arange(words.size, dtype=jnp.uint32)
    mixed = lambda salt: _mix(words ^ _mix(place + np.uint32(salt)))
    return jnp.stack([mixed(salt).sum(dtype=jnp.uint32) for salt in (0x9E3779B9, 0x85EBCA6B)])


def _mix(words: UInt32[Array, " w"]) -> UInt32[Array, " w"]:
    words = (words ^ (words >> 16)) * np.uint32(0x21F0AAAD)
    words = (words ^ (words >> 15)) * np.uint32(0x735A2D97)
    return words ^ (words >> 15)


def seeds_of_clients(
    secret: UInt32[Array, "b 2"], members: UInt32[Array, "c 2"], bitmaps: UInt32[Array, "b w"]
) -> UInt32[Array, "b c 2"]:
    """r_iu of some clients, from their own secrets and the public keys of the members."""
    public = jnp.broadcast_to(members, (len(secret), *members.shape))
    return _bound(key_agreement.shared_seeds(secret, public), bitmaps)


def seeds_of_members(
    secret: UInt32[Array, "c 2"], clients: UInt32[Array, "b 2"], bitmaps: UInt32[Array, "b w"]
) -> UInt32[Array, "b c 2"]:
    """The same, from the members' secrets, the clients' public keys and the bitmaps that members are shown."""
    public = jnp.broadcast_to(clients, (len(secret), *clients.shape))
    return _bound(jnp.moveaxis(key_agreement.shared_seeds(secret, public), 0, 1), bitmaps)


def _bound(keys: UInt32[Array, "b c 2"], bitmaps: UInt32[Array, "b w"]) -> UInt32[Array, "b c 2"]:
    def of_one(keys: Array, words: Array) -> Array:
        low, high = digest(words)
        return expand(keys.T, "bound to a bitmap", low, 2, part=high).T

    # Without the barrier XLA on a CPU agrees on a seed again for each word of its mask.
    return jax.lax.optimization_barrier(jax.vmap(of_one)(keys, bitmaps))


PURPOSE = "committee mask"


def masks(seeds: UInt32[Array, "b c 2"], bitmaps: UInt32[Array, "b w"], round: Round, d: int) -> UInt32[Array, "b c d"]:
    """What each client adds for each member, zero at coordinates that it does not send."""
    words = jax.vmap(jax.vmap(lambda seed: expand(seed, PURPOSE, round, d)))(seeds)
    return jnp.where(sent(bitmaps, d)[:, None], words, 0)


def sum_of_masks(
    seeds: UInt32[Array, "b c 2"],
    counts: Bool[Array, "b c"],
    bitmaps: UInt32[Array, "b w"],
    round: Round,
    d: int,
) -> UInt32[Array, "b d"]:
    """The sum over the members that count, of each client, at the rate of the generator."""
    words = signed_sum(seeds, counts, jnp.ones_like(counts), PURPOSE, round, d, philox)
    return jnp.where(sent(bitmaps, d), words, 0)


def sent(bitmaps: UInt32[Array, "b w"], d: int) -> Bool[Array, "b d"]:
    """Which coordinates each client sends."""
    return jax.vmap(lambda words: bitmap.unpack(words, d))(bitmaps)

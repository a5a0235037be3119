"""Masks that a client shares with each member of a committee, bound to the set of coordinates it sends.

The seed of a mask is `r_iu = PRF(PRF(k_iu, u), digest of b_i)`, k_iu the key that client i and member u agree on, b_i
the client's bitmap. A member that is shown another bitmap expands an unrelated mask. Members are clients, too, and
agree on one key for both directions: without the number u of the member, those that send the same coordinates would
add the same mask, and what is opened of one for an absent member would be masks of that member's upload. The digest is
SIMULATION-GRADE, see `crypto.digest`: whoever tries may find two bitmaps of one digest.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from fedjax_priv.crypto import field
from fedjax_priv.crypto.agreement import SIMULATED, KeyAgreement
from fedjax_priv.crypto.digest import digest
from fedjax_priv.crypto.prg import Prg, Round, expand, philox
from fedjax_priv.engine.side_by_side import by_platform
from fedjax_priv.layers.secure_sum import bitmap
from fedjax_priv.layers.secure_sum.signed_sum import signed_sum

PURPOSE = "committee mask"


class Extent(NamedTuple):
    """What masks are: a word for each coordinate that is sent, in an order that its bitmap gives."""

    num_values: int  # d
    most: int  # coordinates that a client may send
    prg: Prg = philox  # whose words they are
    agreement: KeyAgreement = SIMULATED  # of clients with members


def seeds_of_clients(
    extent: Extent, secret: UInt32[Array, "b s"], members: UInt32[Array, "c s"], bitmaps: UInt32[Array, "b w"]
) -> UInt32[Array, "b c s"]:
    """r_iu of some clients, from their own secrets and the public keys of the members."""
    return _bound(extent, _agreed(extent.agreement, secret, members), bitmaps)


def seeds_of_members(
    extent: Extent, secret: UInt32[Array, "c s"], clients: UInt32[Array, "b s"], bitmaps: UInt32[Array, "b w"]
) -> UInt32[Array, "b c s"]:
    """The same, from the members' secrets, the clients' public keys and the bitmaps that members are shown."""
    return _bound(extent, jnp.moveaxis(_agreed(extent.agreement, secret, clients), 0, 1), bitmaps)


def _agreed(
    agreement: KeyAgreement, secret: UInt32[Array, "b s"], public: UInt32[Array, "c s"]
) -> UInt32[Array, "b c s"]:
    """What each secret agrees on with each public key."""
    everyone = jnp.broadcast_to(jnp.arange(len(public)), (len(secret), len(public)))
    return agreement.shared_seeds(secret, agreement.directory(public), everyone, 0)


def _bound(extent: Extent, keys: UInt32[Array, "b c s"], bitmaps: UInt32[Array, "b w"]) -> UInt32[Array, "b c s"]:
    _, members, length = keys.shape
    of_member = lambda key, number: expand(key, "towards a member", number, length, extent.prg)

    def of_one(keys: Array, words: Array) -> Array:
        low, high = digest(words)
        directed = jax.vmap(of_member)(keys, jnp.arange(members))
        return expand(directed.T, "bound to a bitmap", low, length, extent.prg, part=high).T

    # Without the barrier XLA on a CPU agrees on a seed again for each word of its mask.
    return jax.lax.optimization_barrier(jax.vmap(of_one)(keys, bitmaps))


def too_many(extent: Extent, bitmaps: UInt32[Array, "b w"]) -> Bool[Array, " b"]:
    """Whether a client sends more coordinates than its masks have words."""
    return jax.lax.population_count(bitmaps).sum(1, dtype=jnp.uint32) > np.uint32(extent.most)


def sum_of_masks(
    extent: Extent, seeds: UInt32[Array, "b c s"], counts: Bool[Array, "b c"], bitmaps: Array, round: Round
) -> UInt32[Array, "b d"]:
    """The sum over the members that count of each client's masks, zero at coordinates that it does not send."""
    words = signed_sum(seeds, counts, jnp.ones_like(counts), PURPOSE, round, extent.most, extent.prg)
    return by_platform(functools.partial(_put, extent), functools.partial(_taken, extent), words, bitmaps)


def _taken(extent: Extent, words: UInt32[Array, "b most"], bitmaps: UInt32[Array, "b w"]) -> UInt32[Array, "b d"]:
    """Every coordinate takes the word of its rank."""
    rank = jax.vmap(lambda words: _ranks(words, extent.num_values))(bitmaps)
    spread = jnp.take_along_axis(words, jnp.minimum(rank, extent.most - 1), axis=1)
    return jnp.where(sent(bitmaps, extent.num_values), spread, 0)


def _put(extent: Extent, words: UInt32[Array, "b most"], bitmaps: UInt32[Array, "b w"]) -> UInt32[Array, "b d"]:
    """Every word goes to its coordinate: work is little more than that of the coordinates sent."""
    last = jnp.where(sent(bitmaps, extent.num_values), words[:, -1:], 0)  # where there are more than words, as above
    place = jax.vmap(functools.partial(_searched, extent))(bitmaps)
    return jax.vmap(lambda last, place, words: last.at[place].set(words, mode="drop"))(last, place, words)


def sums_by_member(
    extent: Extent, seeds: UInt32[Array, "b c s"], counts: Bool[Array, " b"], bitmaps: Array, round: Round
) -> tuple[UInt32[Array, "c d"], ...]:
    """For each member the sum of the masks of the clients that count: sums of low and of high halves.

    Words go to their coordinates a few clients at a time, so that work is that of the coordinates sent.
    """
    d, members = extent.num_values, seeds.shape[1]

    def add(sums: tuple, rows: tuple) -> tuple[tuple, None]:
        place = jax.vmap(lambda counts, words: _places(extent, counts, words))(*rows[1:]).reshape(-1)
        expand_one = lambda seed: expand(seed, PURPOSE, round, extent.most, extent.prg)
        words = jnp.moveaxis(jax.vmap(jax.vmap(expand_one))(rows[0]), 1, 2).reshape(-1, members)
        halves = field.split(words)
        return tuple(a.at[place].add(half, mode="drop") for a, half in zip(sums, halves, strict=True)), None

    parts = -(-len(counts) // AT_ONCE)
    missing = parts * AT_ONCE - len(counts)
    cut = lambda a: jnp.pad(a, [(0, missing)] + [(0, 0)] * (a.ndim - 1)).reshape(parts, AT_ONCE, *a.shape[1:])
    nothing = jnp.zeros((d, members), jnp.uint32)
    sums, _ = jax.lax.scan(add, (nothing, nothing), tuple(cut(a) for a in (seeds, counts, bitmaps)))
    return tuple(half.T for half in sums)


AT_ONCE = 8
"""Clients whose words go to their coordinates at once: few kernels on an accelerator, few words in memory."""


def sent(bitmaps: UInt32[Array, "b w"], d: int) -> Bool[Array, "b d"]:
    """Which coordinates each client sends."""
    return jax.vmap(lambda words: bitmap.unpack(words, d))(bitmaps)


def _ranks(words: UInt32[Array, " w"], d: int) -> Int32[Array, " d"]:
    """Of each coordinate of a bitmap, how many that are sent come before it, word by word."""
    count = jax.lax.population_count(words).astype(jnp.int32)
    below = (np.uint32(1) << np.arange(32, dtype=np.uint32)) - np.uint32(1)
    inside = jax.lax.population_count(words[None] & below[:, None]).astype(jnp.int32)
    return (inside + (jnp.cumsum(count) - count)[None]).reshape(-1)[:d]


def _places(extent: Extent, counts: Bool[Array, ""], words: UInt32[Array, " w"]) -> Int32[Array, " most"]:
    """The coordinates that a client sends, by rank; d after the last, and for one that does not count."""
    found = by_platform(functools.partial(_searched, extent), functools.partial(_scattered, extent), words)
    return jnp.where(counts, found, extent.num_values)


def _scattered(extent: Extent, words: UInt32[Array, " w"]) -> Int32[Array, " most"]:
    """Every coordinate goes to the place of its rank: one kernel."""
    d = extent.num_values
    rank = jnp.where(bitmap.unpack(words, d), _ranks(words, d), extent.most)
    return jnp.full(extent.most, d, jnp.int32).at[rank].set(jnp.arange(d, dtype=jnp.int32), mode="drop")


def _searched(extent: Extent, words: UInt32[Array, " w"]) -> Int32[Array, " most"]:
    """For each rank the word it is in, and its bit there: work is that of the coordinates sent."""
    upto = jnp.cumsum(jax.lax.population_count(words).astype(jnp.int32))
    rank = jnp.arange(extent.most, dtype=jnp.int32)
    word = jnp.searchsorted(upto, rank, side="right").astype(jnp.int32)
    within = jnp.minimum(word, words.size - 1)
    before = upto[within] - jax.lax.population_count(words[within]).astype(jnp.int32)
    bit = _nth_bit(words[within], rank - before)
    return jnp.where(rank < upto[-1], bit * words.size + word, extent.num_values)


def _nth_bit(word: UInt32[Array, " most"], n: Int32[Array, " most"]) -> Int32[Array, " most"]:
    """The place of the set bit that n others are below."""
    place = jnp.zeros_like(n)
    for half in (16, 8, 4, 2, 1):
        lower = (word >> place.astype(jnp.uint32)) & np.uint32(2**half - 1)
        count = jax.lax.population_count(lower).astype(jnp.int32)
        above = n >= count
        place, n = place + jnp.where(above, half, 0), n - jnp.where(above, count, 0)
    return place

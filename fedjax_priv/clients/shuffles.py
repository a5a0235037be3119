"""Shuffles of each client's samples, whole or only as far as they are used."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int32, Shaped, UInt32

from fedjax_priv.engine.all_runs import largest_of_all_runs
from fedjax_priv.engine.side_by_side import by_platform

_LAST = 0xFFFFFFFF


def places_kept(capacity: int, first: int) -> int:
    """How many places of a shuffle `shuffled` returns, of `capacity` places of which `first` are used.

    Examples:
      >>> places_kept(60, 20), places_kept(1875, 20)
      (60, 114)
    """
    few = first + 2 * (math.ceil(6 * math.sqrt(first)) + 20)
    return few if 2 * few <= capacity else capacity


def shuffled(
    keys: Shaped[Array, " b"], epoch: Int[Array, " b"], count: Int[Array, " b"], capacity: int, first: int
) -> Int32[Array, "b k"]:
    """The beginning of a random order of each client's samples, `k = places_kept(capacity, first)` places of it.

    The first `first` places are right. For a client with at most k samples, all places with samples are right. Other
    places may hold anything. The order does not depend on `first`.

    Rows are sorted by 32 random bits: a tie, which keeps two of m rows in order, has probability below m**2 / 2**33.

    Args:
      keys: one per client; the order comes from the key and the epoch's number.
      epoch: numbers of the epochs.
      count: samples of each client.
      capacity: samples that a client has room for.
      first: places that a client with more than k samples uses.

    Examples:
      >>> keys, count = jax.random.split(jax.random.key(0), 2), jnp.array([5, 3])
      >>> order = shuffled(keys, jnp.zeros(2, jnp.int32), count, 5, 5)
      >>> print(jnp.sort(order[0]), jnp.sort(order[1, :3]))
      [0 1 2 3 4] [0 1 2]
    """
    draw = lambda key, epoch: jax.random.bits(jax.random.fold_in(key, epoch), (capacity,), jnp.uint32)
    there = jnp.arange(capacity)[None] < count[:, None]
    words = jnp.where(there, jax.vmap(draw)(keys, epoch), jnp.uint32(_LAST))
    size = places_kept(capacity, first)
    whole = lambda: jax.vmap(stable_argsort)(words)[:, :size]
    return whole() if size == capacity else by_platform(lambda: _begun(words, there, count, first, size), whole)


def _begun(
    words: UInt32[Array, "b m"], there: Bool[Array, "b m"], count: Int[Array, " b"], first: int, size: int
) -> Int32[Array, "b k"]:
    """The order of only the smallest words: those below a limit, whose expected number is (first + size) / 2.

    In at most four of a million shuffles their number is below `first` or above `size`; then all words are sorted.
    """
    share = (first + size) / 2 / jnp.maximum(count, size).astype(jnp.float32)
    limit = jnp.where(count > size, (share * 2.0**32).astype(jnp.uint32), jnp.uint32(_LAST))
    rank = jnp.cumsum(there & (words <= limit[:, None]), axis=1, dtype=jnp.int32)
    found = rank[:, -1]
    missed = (found < jnp.minimum(first, count)) | (found > size)
    return jax.lax.cond(
        largest_of_all_runs(missed),
        lambda: jax.vmap(stable_argsort)(words)[:, :size],
        lambda: jax.vmap(_sorted)(words, rank, jnp.arange(size)[None] < found[:, None]),
    )


def _sorted(words: UInt32[Array, " m"], rank: Int32[Array, " m"], there: Bool[Array, " k"]) -> Int32[Array, " k"]:
    """The places of the words at which `rank` grows, in the order of the words."""
    place = jnp.searchsorted(rank, 1 + jnp.arange(there.size)).astype(jnp.int32)
    order = stable_argsort(jnp.where(there, words.at[place].get(mode="clip"), jnp.uint32(_LAST)))
    return jnp.minimum(place[order], words.size - 1)


def stable_argsort(words: UInt32[Array, " m"]) -> Int32[Array, " m"]:
    """`jnp.argsort(words)` digit by digit: on a CPU, XLA sorts numbers far faster than pairs of number and place.

    Starting with the lowest digit, it sorts numbers that consist of a digit and, in the low bits, a place.

    Examples:
      >>> print(stable_argsort(jnp.array([7, 5, 7, 0], jnp.uint32)))
      [3 1 0 2]
    """
    low = max(words.size - 1, 1).bit_length()
    order = place = jnp.arange(words.size, dtype=jnp.uint32)
    for shift in range(0, 32, 32 - low):
        at = jnp.sort((words[order] >> shift) << low | place, stable=False) & jnp.uint32(2**low - 1)
        order = order[at]
    return order.astype(jnp.int32)

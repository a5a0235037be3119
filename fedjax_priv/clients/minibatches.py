"""Minibatches for a block of clients: each client's own shuffles, uneven counts, partial last batches."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int32, PyTree, Shaped, UInt32

from fedjax_priv.base import ClientData
from fedjax_priv.engine.all_runs import largest_of_all_runs


def per_epoch(count: Int[Array, " b"], batch_size: int) -> Int[Array, " b"]:
    """Batches in one pass over each client's samples, `ceil(count / batch_size)`; the last may be partial."""
    return (count + batch_size - 1) // batch_size


def next_batch(
    keys: Shaped[Array, " b"],
    data: ClientData,
    order: Int[Array, "b m"],
    time: Int[Array, ""],
    active: Bool[Array, " b"],
    *,
    batch_size: int,
) -> tuple[Int[Array, "b m"], PyTree, Bool[Array, "b {batch_size}"]]:
    """Batch number `time` of each client's sequence of shuffled epochs.

    Sorting is expensive, so shuffles are drawn only in steps where an active client begins an epoch.

    Args:
      keys: one per client; the shuffle of an epoch comes from the key and the epoch's number.
      data: of the block, `[b, m, ...]`.
      order: shuffles of the current epochs; anything at time 0.
      time: batches taken before this one.
      active: clients that need a batch; the others, and clients without samples, get no valid sample.
      batch_size: samples in a batch.

    Returns:
      The shuffles of the current epochs, the examples `[b, batch_size, ...]`, and which of them are valid. An invalid
      one repeats one of the client's own, so nothing is computed from padding.
    """
    active = active & (data.count > 0)
    epoch, number = jnp.divmod(time, jnp.maximum(per_epoch(data.count, batch_size), 1))
    begins = active & (number == 0)
    order = jax.lax.cond(
        largest_of_all_runs(begins),
        lambda: jnp.where(begins[:, None], _shuffle(keys, epoch, data.count, order.shape[1]), order),
        lambda: order,
    )
    position = number[:, None] * batch_size + jnp.arange(batch_size)[None, :]
    valid = position < data.count[:, None]
    row = jnp.take_along_axis(order, jnp.where(valid, position, 0), axis=1)
    return (
        order,
        jax.tree.map(lambda a: jax.vmap(lambda rows, at: rows[at])(a, row), data.examples),
        (valid & active[:, None]),
    )


def _shuffle(keys: Array, epoch: Array, count: Array, capacity: int) -> Array:
    """A random order of each client's valid rows, `[b, m]`, followed by the padding.

    Rows are sorted by 32 random bits: a tie, which keeps two of m rows in order, has probability below m**2 / 2**33.
    """

    def order(key: Array, epoch: Array, count: Array) -> Array:
        bits = jax.random.bits(jax.random.fold_in(key, epoch), (capacity,), jnp.uint32)
        return _stable_argsort(jnp.where(jnp.arange(capacity) < count, bits, jnp.uint32(0xFFFFFFFF)))

    return jax.vmap(order)(keys, epoch, count)


def _stable_argsort(words: UInt32[Array, " m"]) -> Int32[Array, " m"]:
    """`jnp.argsort(words)` digit by digit: on a CPU, XLA sorts numbers far faster than rows by numbers.

    It sorts numbers made of a digit and, in the low bits, a place; the lowest digit first.
    """
    low = max(words.size - 1, 1).bit_length()
    order = place = jnp.arange(words.size, dtype=jnp.uint32)
    for shift in range(0, 32, 32 - low):
        at = jnp.sort((words[order] >> shift) << low | place, stable=False) & jnp.uint32(2**low - 1)
        order = order[at]
    return order.astype(jnp.int32)

"""Minibatches for a block of clients: each client's own shuffles, uneven counts, partial last batches."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int32, PyTree, Shaped

from fedjax_priv.base import ClientData, Cohort, Key, Rows
from fedjax_priv.clients.shuffles import places_kept, shuffled
from fedjax_priv.engine.all_runs import largest_of_all_runs
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.keys import per_client


def per_epoch(count: Int[Array, " b"], batch_size: int) -> Int[Array, " b"]:
    """Batches in one pass over each client's samples, `ceil(count / batch_size)`; the last may be partial."""
    return (count + batch_size - 1) // batch_size


def next_batch(
    keys: Shaped[Array, " b"],
    data: ClientData,
    order: Int[Array, "b k"],
    time: Int[Array, ""],
    active: Bool[Array, " b"],
    *,
    batch_size: int,
    first: int,
) -> tuple[Int[Array, "b k"], PyTree, Bool[Array, "b {batch_size}"]]:
    """Batch number `time` of each client's sequence of shuffled epochs.

    Sorting is expensive, so shuffles are drawn only in steps where an active client begins an epoch.

    Args:
      keys: one per client; the shuffle of an epoch comes from the key and the epoch's number.
      data: of the block, `[b, m, ...]`.
      order: shuffles of the current epochs, as far as they are kept; `no_order` at time 0.
      time: batches taken before this one.
      active: clients that need a batch; the others, and clients without samples, get no valid sample.
      batch_size: samples in a batch.
      first: the most samples that a client gets in all calls together; `room(data.examples)`: no limit.

    Returns:
      The shuffles of the current epochs, the examples `[b, batch_size, ...]`, and which of them are valid. An invalid
      example repeats a valid one of the client, so nothing is computed from padding.
    """
    active = active & (data.count > 0)
    epoch, number = jnp.divmod(time, jnp.maximum(per_epoch(data.count, batch_size), 1))
    begins = active & (number == 0)
    order = jax.lax.cond(
        largest_of_all_runs(begins),
        lambda: jnp.where(begins[:, None], shuffled(keys, epoch, data.count, room(data.examples), first), order),
        lambda: order,
    )
    position = number[:, None] * batch_size + jnp.arange(batch_size)[None, :]
    valid = position < data.count[:, None]
    row = jnp.take_along_axis(order, jnp.where(valid, position, 0), axis=1)
    return order, samples_at(data.examples, row), valid & active[:, None]


def no_order(data: ClientData, first: int) -> Int32[Array, "b k"]:
    """The argument `order` of `next_batch` before the first batch."""
    return jnp.zeros((data.count.size, places_kept(room(data.examples), first)), jnp.int32)


def room(examples: PyTree) -> int:
    """Samples that each client has room for."""
    among = examples.among if isinstance(examples, Rows) else examples
    return jax.tree.leaves(among)[0].shape[1]


def checked_room(data: ClientData, batch_size: int) -> int:
    """Samples that each client has room for, at least a batch.

    Raises:
      ValueError: a batch is larger.
    """
    capacity = room(data.examples)
    if capacity < batch_size:
        raise ValueError(f"batch_size must be at most {capacity}, the samples a client has room for, got {batch_size}")
    return capacity


def samples_at(examples: PyTree, place: Int[Array, "b k"]) -> PyTree:
    """Some samples of each client of a block, `[b, k, ...]`."""
    if isinstance(examples, Rows):
        return jax.tree.map(lambda a: a[examples.row[:, None], place], examples.among)
    return jax.tree.map(lambda a: jax.vmap(lambda rows, at: rows[at])(a, place), examples)


def clients_at(data: ClientData, place: Int[Array, " k"]) -> ClientData:
    """The clients of a block at some places; their samples stay where they are."""
    examples = data.examples
    rows = Rows(examples.among, examples.row[place]) if isinstance(examples, Rows) else Rows(examples, place)
    return ClientData(rows, data.count[place])


def all_samples(examples: PyTree) -> PyTree:
    """All samples of each client of a block, `[b, m, ...]`."""
    return jax.tree.map(lambda a: a[examples.row], examples.among) if isinstance(examples, Rows) else examples


def valid_samples(key: Key, data: ClientData, cohort: Cohort) -> tuple[PyTree, Array]:
    """The examples of each client, and which are valid; the others repeat its first one."""
    del key, cohort
    valid = jnp.arange(checked_room(data, 1))[None, :] < data.count[:, None]
    return jax.tree.map(lambda a: rows_where(valid, a, a[:, :1]), all_samples(data.examples)), valid


def first_batch(batch_size: int) -> Callable[[Key, ClientData, Cohort], tuple[PyTree, Array]]:
    """A function that returns the first batch of each client's first shuffle, and which of its examples are valid."""

    def batch(key: Key, data: ClientData, cohort: Cohort) -> tuple[PyTree, Array]:
        keys = per_client(lambda key: key, key, cohort.client)
        checked_room(data, batch_size)  # raises where no client has room for a batch
        start = no_order(data, batch_size), jnp.int32(0), data.count > 0
        return next_batch(keys, data, *start, batch_size=batch_size, first=batch_size)[1:]

    return batch

"""A population whose samples stay on the host and are fetched by client: NumPy, ahead of the rounds that need them."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import ClientData

Ids = Int[np.ndarray, " k"]
"""Numbers of clients in the population."""


class Pool(NamedTuple):
    """The samples of a population, to be asked for by client.

    `fetch` may read files; it is called from one thread at a time, which need not be the main one. Rows `count[i]:` of
    client `i` are padding and never train.
    """

    fetch: Callable[[Ids], PyTree]  # ids [k] -> examples [k, m, ...], NumPy
    count: Int[np.ndarray, " population"]


def pool_of(data: ClientData) -> Pool:
    """The pool of clients whose samples are arrays already; those of an `np.memmap` are read when fetched.

    Args:
      data: examples `[n, m, ...]` and count `[n]`, NumPy or JAX arrays.

    Raises:
      ValueError: as `checked`, or the examples are not of as many clients as the count.
    """
    examples, count = jax.tree.map(np.asarray, data.examples), np.asarray(data.count)
    for path, rows in jax.tree.leaves_with_path(examples):
        if rows.shape[:1] != count.shape:
            name, shape = f"examples{jax.tree_util.keystr(path)}", rows.shape
            raise ValueError(f"{name} must have a row for each of {count.size} clients, got shape {shape}")
    return checked(Pool(lambda ids: jax.tree.map(lambda rows: rows[ids], examples), count))


def checked(pool: Pool) -> Pool:
    """The same pool, with every answer of `fetch` held against the one for client 0, which is fetched at once.

    Returns:
      The pool with an int32 count. Its `fetch` raises a ValueError that names the first array with another number of
      clients, shape or dtype than it must have.

    Raises:
      ValueError: the count is not integers from 0 to the samples there is room for, or is all 0, or the examples are
        not arrays `[k, m, ...]` with one m.
    """
    count, first = pool.count, jax.tree.map(np.asarray, pool.fetch(np.zeros(1, np.int32)))
    room = {rows.shape[1:2] for rows in jax.tree.leaves(first)}
    if len(room) != 1 or () in room:
        raise ValueError(f"fetch must return arrays [k, m, ...] with one m, got m of {sorted(room)}")
    _compare(first, first, 1)
    _check_count(count, room.pop()[0])

    def fetch(ids: Ids) -> PyTree:
        examples = jax.tree.map(np.asarray, pool.fetch(ids))
        _compare(examples, first, ids.size)
        return examples

    return Pool(fetch, count.astype(np.int32))


def _check_count(count: np.ndarray, most: int) -> None:
    if count.ndim != 1 or not np.issubdtype(count.dtype, np.integer):
        raise ValueError(f"count must be integers [population], got {count.dtype} {count.shape}")
    if not count.any() or count.min() < 0 or count.max() > most:
        raise ValueError(f"count must be from 0 to {most}, the samples there is room for, and not all 0")
    if (total := int(count.sum(dtype=np.int64))) >= 2**31:
        raise ValueError(f"count must add to fewer than 2**31 samples, got {total}")


def _compare(examples: PyTree, first: PyTree, size: int) -> None:
    """Refuse examples of `size` clients that are not like the first."""
    if jax.tree.structure(examples) != jax.tree.structure(first):
        raise ValueError(f"fetch must return {jax.tree.structure(first)}, got {jax.tree.structure(examples)}")
    for (path, rows), like in zip(jax.tree.leaves_with_path(examples), jax.tree.leaves(first), strict=True):
        shape = (size, *like.shape[1:])
        if (rows.shape, rows.dtype) != (shape, like.dtype):
            name = f"examples{jax.tree_util.keystr(path)}"
            raise ValueError(f"fetch must return {like.dtype} {shape} as {name}, got {rows.dtype} {rows.shape}")


def prefetch(
    fetch: Callable[[Ids], PyTree],
    ids: Iterable[Ids],
    *,
    depth: int = 2,
    place: Callable[[PyTree], PyTree] = lambda examples: examples,
) -> Iterator[PyTree]:
    """What `fetch` returns for each of `ids`, in order, fetched ahead by a thread.

    The thread starts when the first one is asked for, and is gone when the iterator is exhausted, raises or is closed;
    closing waits for the fetch under way.

    Args:
      fetch: as that of a pool.
      ids: clients of each round. The thread goes through them, so that they may be computed as they are needed.
      depth: most rounds fetched, or being fetched, beyond the one that was handed out last.
      place: what the thread does with the examples then, such as putting them on a device.

    Raises:
      ValueError: `depth` is not an integer >= 1.
      BaseException: what `ids`, `fetch` or `place` raised, in the place of the round it was raised for.
    """
    _validate.integer(depth=depth)
    rounds = iter(ids)

    def following() -> list[PyTree]:
        return [place(fetch(clients)) for clients in itertools.islice(rounds, 1)]

    return _ahead(following, depth)


def _ahead(following: Callable[[], list[PyTree]], depth: int) -> Iterator[PyTree]:
    """One after the other, computed by a thread, until one is empty; none is kept here once it is handed out."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
    try:
        pending = deque(thread.submit(following) for _ in range(depth))
        while item := pending.popleft().result():
            pending.append(thread.submit(following))
            yield item.pop()
    finally:
        thread.shutdown(cancel_futures=True)

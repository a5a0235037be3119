"""A population whose samples stay on the host: NumPy rows fetched by client, ahead of the rounds that need them."""

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
"""Client numbers in the population."""


class Pool(NamedTuple):
    """The samples of a population, fetched by client.

    `fetch` may read files, and may write each answer into the same arrays: answers are copied. One thread at a time
    calls it, not necessarily the main thread. Rows `count[i]:` of client
    `i` are padding and never train.
    """

    fetch: Callable[[Ids], PyTree]  # ids [k] -> examples [k, m, ...], NumPy
    count: Int[np.ndarray, " population"]


def pool_of(data: ClientData) -> Pool:
    """A pool from arrays; an `np.memmap` is read only when fetched.

    Args:
      data: examples `[n, m, ...]` and count `[n]`, NumPy or JAX arrays.

    Raises:
      ValueError: as `checked`; `data` are no `ClientData`, or an array of the examples has another number of clients
        than the count.

    Examples:
      >>> pool = pool_of(stack_clients(np.arange(6), [np.array([0, 1]), np.array([2, 3]), np.array([4, 5])]))
      >>> print(pool.fetch(np.array([0, 2])))
      [[0 1]
       [4 5]]
    """
    _validate.part(ClientData, "data.stack_clients(x, parts)", data=data)
    examples, count = jax.tree.map(np.asarray, data.examples), np.asarray(data.count)
    for path, rows in jax.tree.leaves_with_path(examples):
        if rows.shape[:1] != count.shape:
            name, shape = f"examples{jax.tree_util.keystr(path)}", rows.shape
            raise ValueError(f"{name} must have a row for each of {count.size} clients, got shape {shape}")
    return checked(Pool(lambda ids: jax.tree.map(lambda rows: rows[ids], examples), count))


def checked(pool: Pool) -> Pool:
    """The same pool, whose `fetch` compares each answer with that for client 0, which is fetched at once.

    Returns:
      The pool with an int32 count. Its `fetch` raises a ValueError that names the first array with a wrong number of
      clients, shape or dtype.

    Raises:
      ValueError: the count is not integers from 0 to the samples per client there is room for, or is all 0, or the
        examples are not arrays `[k, m, ...]` with one m.
    """
    count, first = pool.count, jax.tree.map(np.array, pool.fetch(np.zeros(1, np.int32)))
    room = {rows.shape[1:2] for rows in jax.tree.leaves(first)}
    if len(room) != 1 or () in room:
        raise ValueError(f"fetch must return arrays [k, m, ...] with one m, got m of {sorted(room)}")
    _compare(first, first, 1)
    _check_count(count, room.pop()[0])

    def fetch(ids: Ids) -> PyTree:
        examples = jax.tree.map(np.array, pool.fetch(ids))
        _compare(examples, first, ids.size)
        return examples

    return Pool(fetch, count.astype(np.int32))


def _check_count(count: np.ndarray, most: int) -> None:
    if count.ndim != 1 or not np.issubdtype(count.dtype, np.integer):
        raise ValueError(f"count must be integers [population], got {count.dtype} {count.shape}")
    if not count.any() or count.min() < 0 or count.max() > most:
        raise ValueError(
            f"count must be from 0 to {most}, the samples per client in the arrays, and not all 0, got {count}"
        )
    if (total := int(count.sum(dtype=np.int64))) >= 2**31:
        raise ValueError(f"count must add to fewer than 2**31 samples, got {total}")


def _compare(examples: PyTree, first: PyTree, size: int) -> None:
    """Raises ValueError unless the examples of `size` clients have the structure, shapes and dtypes of the first."""
    if jax.tree.structure(examples) != jax.tree.structure(first):
        raise ValueError(f"fetch must return {jax.tree.structure(first)}, got {jax.tree.structure(examples)}")
    for (path, rows), like in zip(jax.tree.leaves_with_path(examples), jax.tree.leaves(first), strict=True):
        shape = (size, *like.shape[1:])
        if (rows.shape, rows.dtype) != (shape, like.dtype):
            name = f"examples{jax.tree_util.keystr(path)}"
            raise ValueError(f"fetch must return {like.dtype} {shape} as {name}, got {rows.dtype} {rows.shape}")


_DEEPEST = 1000
"""Rounds that `prefetch` keeps at most; each has a place of its own before the first one is yielded."""


def prefetch(
    fetch: Callable[[Ids], PyTree],
    ids: Iterable[Ids],
    *,
    depth: int = 2,
    place: Callable[[PyTree], PyTree] = lambda examples: examples,
) -> Iterator[PyTree]:
    """Yields what `fetch` returns for each of `ids`, in order; a thread fetches ahead.

    The thread starts with the first item and ends when the iterator is exhausted, raises or is closed; closing waits
    for the current fetch.

    Args:
      fetch: as that of a pool.
      ids: clients of each round. The thread iterates over them, so they may be computed lazily.
      depth: number of rounds fetched, or being fetched, beyond the last one yielded; from 1 to 1,000.
      place: what the thread then does with the examples, such as putting them on a device.

    Raises:
      ValueError: `depth` is not an integer from 1 to 1,000, or `fetch` or `place` is no function of one argument.
      BaseException: what `ids`, `fetch` or `place` raised, at the round it was raised for.

    Examples:
      >>> rows = np.arange(10)
      >>> print(list(prefetch(lambda ids: rows[ids] * 10, [np.array([1, 2]), np.array([7, 8])])))
      [array([10, 20]), array([70, 80])]
    """
    if _validate.integer(depth=depth) > _DEEPEST:
        raise ValueError(f"depth must be at most {_DEEPEST}, got {depth}")
    _validate.takes("clients", fetch=fetch)
    _validate.takes("examples", place=place)
    rounds = iter(ids)

    def following() -> list[PyTree]:
        return [place(fetch(clients)) for clients in itertools.islice(rounds, 1)]

    return _ahead(following, depth)


def _ahead(following: Callable[[], list[PyTree]], depth: int) -> Iterator[PyTree]:
    """Yields items that a thread computes, until one is empty; keeps no reference to an item it has yielded."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
    try:
        pending = deque(thread.submit(following) for _ in range(depth))
        while item := pending.popleft().result():
            pending.append(thread.submit(following))
            yield item.pop()
    finally:
        thread.shutdown(cancel_futures=True)

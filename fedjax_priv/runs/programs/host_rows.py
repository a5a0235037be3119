"""Client state of a large population, on the host; memory is used only for clients that have taken part."""

from collections.abc import Mapping

import jax
import numpy as np
from jaxtyping import Int, PyTree

from fedjax_priv import _validate

Ids = Int[np.ndarray, " k"]
"""Numbers of clients in the population."""


class HostRows:
    """Acts as arrays `[population, ...]`, one row per client; memory holds only rows that were put.

    Row 0 of each buffer is the row with which all clients start. A client's slot points there until its row is put.
    """

    def __init__(self, first: PyTree, population: int):
        """Every client's rows start as `first`, a pytree of arrays `[...]`.

        Raises:
          ValueError: `population` is not an integer >= 1.
        """
        _validate.integer(population=population)
        leaves, self._structure = jax.tree.flatten(first)
        self._population = population
        self._buffers = [np.array(leaf)[None] for leaf in leaves]
        self._slots = np.zeros(population if leaves else 0, np.int32)
        self._used = 1

    def take(self, ids: Ids) -> PyTree:
        """Copies of the rows of clients `[k]`, NumPy `[k, ...]`.

        Raises:
          ValueError: a number is not in the population.
        """
        self._check_ids(ids)
        slots = self._slots[ids] if self._buffers else ids
        return self._structure.unflatten([buffer[slots] for buffer in self._buffers])

    def put(self, ids: Ids, rows: PyTree) -> None:
        """Replaces the rows of clients `[k]`, NumPy or JAX arrays `[k, ...]`; if one occurs twice, the last row counts.

        Raises:
          ValueError: a number is not in the population, or `rows` has another structure, shape or dtype than
            `take(ids)`.
        """
        self._check_ids(ids)
        leaves = self._leaves(ids, rows)
        if leaves:
            slots = self._slots_of(ids)
            for buffer, new in zip(self._buffers, leaves, strict=True):
                buffer[slots] = new

    def snapshot(self) -> dict[str, np.ndarray]:
        """The clients whose rows were put, ascending, and their rows: `ids` `[k]`, and `rows_0`, ... `[k, ...]`."""
        ids = np.flatnonzero(self._slots).astype(np.int32)
        rows = jax.tree.leaves(self.take(ids))
        return {"ids": ids} | {f"rows_{i}": leaf for i, leaf in enumerate(rows)}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Restores a snapshot bit for bit and forgets all rows that were put before.

        Raises:
          ValueError: the snapshot has rows of another form or is of a larger population; nothing is changed then.
        """
        names = ["ids", *(f"rows_{i}" for i in range(len(self._buffers)))]
        if sorted(snapshot) != sorted(names):
            raise ValueError(f"snapshot must have {', '.join(names)}, got {', '.join(snapshot)}")
        ids, rows = snapshot["ids"], self._structure.unflatten([snapshot[name] for name in names[1:]])
        self._check_ids(ids)
        self._leaves(ids, rows)
        self._slots[:], self._used = 0, 1
        self.put(ids, rows)

    def _slots_of(self, ids: Ids) -> np.ndarray:
        """The slot of each client; a client without one gets one."""
        new = ids[self._slots[ids] == 0]
        used = self._used + new.size
        self._make_room(used)
        self._slots[new] = np.arange(self._used, used)
        self._used = used
        return self._slots[ids]

    def _make_room(self, needed: int) -> None:
        """Doubles buffers that are too small, so that on average a row is copied a bounded number of times."""
        have = len(self._buffers[0])
        if needed > have:
            room = max(needed, min(2 * have, self._population + 1))
            larger = [np.zeros((room, *buffer.shape[1:]), buffer.dtype) for buffer in self._buffers]
            for old, new in zip(self._buffers, larger, strict=True):
                new[: self._used] = old[: self._used]
            self._buffers = larger

    def _check_ids(self, ids: Ids) -> None:
        if ids.size and not (ids.min() >= 0 and ids.max() < self._population):
            raise ValueError(f"ids must be from 0 to {self._population - 1}, got {ids.min()} to {ids.max()}")

    def _leaves(self, ids: Ids, rows: PyTree) -> list[np.ndarray]:
        """The arrays of `rows`, which must have the shapes and dtypes of `take(ids)`."""
        leaves, structure = jax.tree.flatten(rows)
        if structure != self._structure:
            raise ValueError(f"rows must be {self._structure}, got {structure}")
        leaves = [np.asarray(leaf) for leaf in leaves]
        for buffer, new in zip(self._buffers, leaves, strict=True):
            if (new.shape, new.dtype) != ((ids.size, *buffer.shape[1:]), buffer.dtype):
                shape = (ids.size, *buffer.shape[1:])
                raise ValueError(f"rows must be {buffer.dtype} {shape}, got {new.dtype} {new.shape}")
        return leaves

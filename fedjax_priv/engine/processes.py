"""One run over several processes: JAX's own runtime joins their devices, and every process runs the same program.

Only the first process reads and writes files; the others are sent what it read, or the error it raised.
"""

import functools
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.base import CLIENTS, ClientData
from fedjax_priv.engine.mesh import clients_mesh

T = TypeVar("T")


def is_first() -> bool:
    """Whether this process is the one that reads and writes files."""
    return jax.process_index() == 0


def on_first(work: Callable[[], T]) -> T:
    """Call `work` on the first process and return its result on all, which call this at the same place.

    Raises:
      Exception: what `work` raised, on every process; a RuntimeError that names it where it cannot be pickled.
    """
    if jax.process_count() == 1:
        return work()
    value, error = pickle.loads(_from_first(_outcome(work) if is_first() else b""))
    if error is not None:
        raise error
    return value


def any_process(flag: bool) -> bool:
    """Whether the flag is set on any process."""
    return flag if jax.process_count() == 1 else bool(multihost_utils.process_allgather(np.array(flag)).any())


def on_host(tree: PyTree) -> PyTree:
    """Arrays as NumPy arrays, whole, on every process."""
    return jax.tree.map(_whole, tree)


def clients_of_process(num_clients: int, mesh: Mesh | None = None) -> slice:
    """The clients whose rows this process holds when `num_clients` are spread over the devices.

    Args:
      num_clients: clients in all, a multiple of the devices of `mesh`.
      mesh: as of `clients_mesh`; all devices of all processes if not given.

    Raises:
      ValueError: `num_clients` is not a multiple of the number of devices.
    """
    mesh = mesh or clients_mesh()
    _validate.integer(num_clients=num_clients)
    _validate.divides({"the number of devices": mesh.size}, num_clients=num_clients)
    each = num_clients // mesh.size
    mine = [at for at, device in enumerate(mesh.devices.flat) if device.process_index == jax.process_index()]
    return slice(mine[0] * each, (mine[-1] + 1) * each)


def distribute(own: ClientData, num_clients: int, mesh: Mesh | None = None) -> ClientData:
    """One `ClientData` over all processes, from the rows of each process's own clients.

    Args:
      own: rows of `clients_of_process(num_clients, mesh)`, with the same `m` on every process.
      num_clients: clients in all.
      mesh: as of `clients_mesh`; all devices of all processes if not given.

    Raises:
      ValueError: `own` has another number of rows.
    """
    rows = clients_of_process(num_clients, mesh)
    if len(own.count) != rows.stop - rows.start:
        raise ValueError(f"own must hold this process's clients, {rows.start} to {rows.stop - 1}, got {len(own.count)}")
    split = NamedSharding(mesh or clients_mesh(), PartitionSpec(CLIENTS))
    return jax.tree.map(lambda a: jax.make_array_from_process_local_data(split, a, (num_clients, *a.shape[1:])), own)


def place(tree: PyTree, sharding: Sharding) -> PyTree:
    """Put arrays on all devices, also of other processes, which hold the same values. Placed arrays stay."""
    return jax.tree.map(functools.partial(_place, sharding=sharding), tree)


def _place(array: Any, sharding: Sharding) -> jax.Array:
    if sharding.is_fully_addressable or (isinstance(array, jax.Array) and not array.is_fully_addressable):
        return jax.device_put(array, sharding)
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_place(jax.random.key_data(array), sharding), impl=jax.random.key_impl(array))
    whole = np.asarray(array)
    return jax.make_array_from_callback(whole.shape, sharding, lambda rows: whole[rows])


def _whole(array: Any) -> np.ndarray:
    there = not isinstance(array, jax.Array) or array.is_fully_addressable or array.is_fully_replicated
    return np.asarray(array if there else multihost_utils.process_allgather(array, tiled=True))


def _outcome(work: Callable[[], Any]) -> bytes:
    """The pickled `(value, error)`, since others do not know shapes; it must not raise, as they wait for it."""
    try:
        return pickle.dumps((work(), None))
    except Exception as error:
        try:
            content = pickle.dumps((None, error))
            pickle.loads(content)
        except Exception:
            return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
        return content


def _from_first(content: bytes) -> bytes:
    """The content that the first process has; its size goes ahead in two words, as JAX has no int64."""
    high, low = multihost_utils.broadcast_one_to_all(np.array(divmod(len(content), 2**32), np.uint32))
    own = np.frombuffer(content, np.uint8) if is_first() else np.zeros(int(high) * 2**32 + int(low), np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(own)).tobytes()

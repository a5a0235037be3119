"""Where a state lies on the devices: `init` puts it where every round leaves it, so a round is compiled once.

Rows of clients are spread over the mesh if its size divides their number; everything else is whole on every device.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding
from jaxtyping import Array, PyTree

from fedjax_priv.base import CLIENTS, RoundState
from fedjax_priv.engine import processes


def rows_over(mesh: Mesh, num_rows: int) -> NamedSharding:
    """How rows of clients lie on a mesh."""
    split = mesh.size > 1 and num_rows % mesh.size == 0
    return NamedSharding(mesh, PartitionSpec(CLIENTS) if split else PartitionSpec())


def placed(state: RoundState, mesh: Mesh | None) -> RoundState:
    """A state where every round leaves it; without a mesh, where it is."""
    if mesh is None:
        return state
    whole = functools.partial(_put, where=NamedSharding(mesh, PartitionSpec()))
    rows = lambda a: _put(a, rows_over(mesh, a.shape[0]))
    by_client = {name: jax.tree.map(rows, getattr(state, name)) for name in ("memory", "layers")}
    return jax.tree.map(whole, state._replace(memory=(), layers=()))._replace(**by_client)


def initial(state: RoundState, mesh: Mesh | None, inputs: PyTree) -> RoundState:
    """A state that was just made, in arrays that nobody else holds, so it can be donated; placed as rounds leave it.

    Without a mesh, rounds leave it on the device that `inputs`, the arguments of the round, are committed to, if any.
    """
    state = jax.tree.map(_own, state)
    if mesh is not None:
        return placed(state, mesh)
    chosen = [a.sharding for a in jax.tree.leaves(inputs) if _is_array(a) and a.committed and len(a.devices()) == 1]
    return jax.tree.map(lambda a: _put(a, chosen[0]), state) if chosen else state


def _own(a: Any) -> Array:
    """A copy, not of a weak type, which would be traced twice."""
    a = jnp.asarray(a)
    return jnp.array(a, a.dtype)


def _is_array(a: Any) -> bool:
    return isinstance(a, jax.Array) and not isinstance(a, Tracer)


def _put(a: Array, where: Sharding) -> Array:
    """A traced array is only told where to be once the program is split over the devices."""
    return jax.lax.with_sharding_constraint(a, where) if isinstance(a, Tracer) else processes.place(a, where)

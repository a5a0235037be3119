"""How runs, and the clients in them, are spread over the devices."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from fedjax_priv.base import CLIENTS, RoundState
from fedjax_priv.engine import processes
from fedjax_priv.engine.side_by_side import on_devices_of
from fedjax_priv.engine.state_placement import rows_over

RUNS = "runs"
"""Name of the mesh axis of a sweep in which each device computes whole runs."""


class Layout(NamedTuple):
    """`each(fn, shared)` computes `fn` for all runs side by side; its last `shared` arguments are the same for all.

    If `fn` has several forms, by platform, only the form for the layout's devices is traced.
    """

    each: Callable[[Callable, int], Callable]
    runs: bool  # arrays have a leading axis of runs
    whole: NamedSharding  # of arrays that every run needs
    inputs: NamedSharding  # of arrays that differ between runs
    data: NamedSharding  # of samples by client
    state: Any  # `RoundState` of shardings; all runs share the number of the round
    out: NamedSharding  # of arrays that the host reads

    @property
    def by_runs(self) -> bool:
        """Whether each device computes whole runs."""
        return self.out != self.whole

    @property
    def devices(self) -> list[Any]:
        """All devices of the layout."""
        return [*self.whole.mesh.devices.flat]  # pyright: ignore[reportOptionalMemberAccess]

    def place_state(self, state: RoundState) -> RoundState:
        """Put a state on the devices."""
        return RoundState(*(processes.place(part, where) for part, where in zip(state, self.state, strict=True)))


def one_run(mesh: Mesh, num_clients: int) -> Layout:
    """One run; its clients are spread over the mesh if its size divides their number."""
    whole = NamedSharding(mesh, PartitionSpec())
    rows = rows_over(mesh, num_clients)
    each = lambda fn, shared: on_devices_of(mesh, fn)
    return Layout(each, False, whole, whole, rows, _state(whole, rows), whole)


def clients_over_devices(mesh: Mesh, num_clients: int) -> Layout:
    """All runs side by side, their clients spread over the mesh."""
    _, _, whole, _, data, _, _ = one_run(mesh, num_clients)
    rows = NamedSharding(mesh, PartitionSpec(None, CLIENTS)) if data != whole else whole
    each = lambda fn, shared: on_devices_of(mesh, _side_by_side(fn, shared))
    return Layout(each, True, whole, whole, data, _state(whole, rows), whole)


def runs_over_devices(devices: Sequence[Any]) -> Layout:
    """Every device computes whole runs, side by side: no device waits for another."""
    mesh = Mesh(np.array(devices), (RUNS,))
    whole, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec(RUNS))

    def each(fn: Callable, shared: int) -> Callable:
        def run(*args: object) -> object:
            specs = _axes(args, shared, PartitionSpec(RUNS), PartitionSpec())
            fn_each = on_devices_of(mesh, _side_by_side(fn, shared))
            return jax.shard_map(fn_each, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(RUNS), check_vma=False)(
                *args
            )

        return run

    return Layout(each, True, whole, split, whole, _state(split, split)._replace(round=whole), split)


def _side_by_side(fn: Callable, shared: int) -> Callable:
    """`vmap` of `fn` over runs, but not for a single run: under `vmap`, `lax.switch` would compute all branches."""

    def runs(*args: PyTree) -> PyTree:
        own, same = args[: len(args) - shared], args[len(args) - shared :]
        if jax.tree.leaves(own)[0].shape[0] > 1:
            return jax.vmap(lambda *own: fn(*own, *same))(*own)
        return jax.tree.map(lambda a: jnp.asarray(a)[None], fn(*jax.tree.map(lambda a: a[0], own), *same))

    return runs


def _axes(args: tuple, shared: int, own: object, all_runs: object) -> tuple:
    return (own,) * (len(args) - shared) + (all_runs,) * shared


def _state(whole: NamedSharding, rows: NamedSharding) -> RoundState:
    return RoundState._make([whole] * len(RoundState._fields))._replace(memory=rows, layers=rows)

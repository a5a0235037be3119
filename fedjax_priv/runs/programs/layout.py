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
"""Name of the mesh axis of a sweep whose devices take whole runs."""


class Layout(NamedTuple):
    """`each(fn, shared)` is `fn` for every run side by side, its last `shared` arguments the same for all.

    Only the forms for the devices of the layout are traced.
    """

    each: Callable[[Callable, int], Callable]
    runs: bool  # arrays have an axis of runs
    whole: NamedSharding  # what every run needs
    inputs: NamedSharding  # what tells runs apart
    data: NamedSharding  # samples by client
    state: Any  # `RoundState` of shardings; the number of the round is one for all runs
    out: NamedSharding  # what is read by the host

    @property
    def by_runs(self) -> bool:
        """Whether each device has whole runs."""
        return self.out != self.whole

    @property
    def devices(self) -> list[Any]:
        """All that take part."""
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
    """Whole runs on every device, there side by side: no device waits for another."""
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
    """One run is no `vmap`: there, a choice by a traced value would compute all that could have been chosen."""

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

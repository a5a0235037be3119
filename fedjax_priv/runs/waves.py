"""A sweep in waves: one program computes the runs of a wave side by side; a wave has as many runs as fit the memory."""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, ClientData, Key
from fedjax_priv.engine import processes
from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.engine.parts import check_params
from fedjax_priv.keys import named
from fedjax_priv.runs import checks
from fedjax_priv.runs.chunk_loop import Hooks, run_chunks, stop_if_asked
from fedjax_priv.runs.grid import Grid, Point
from fedjax_priv.runs.programs import layout
from fedjax_priv.runs.programs.evaluation import Evaluate
from fedjax_priv.runs.programs.layout import Layout
from fedjax_priv.runs.programs.lowering import free_bytes
from fedjax_priv.runs.programs.run_program import CompiledRuns, Inputs, Lowered, lower_runs
from fedjax_priv.runs.records import mechanism, result_dataset
from fedjax_priv.runs.records.digests import digest
from fedjax_priv.runs.records.result_dataset import Chunk
from fedjax_priv.runs.records.run_writer import RunWriter
from fedjax_priv.runs.shared_programs import SEED, SharedProgram, axis_kinds, points_by_program

FRACTION_OF_FREE_MEMORY = 0.5
"""The fraction of free memory that a wave may take by default."""

Over = Literal["auto", "runs", "clients"]


class Wave(NamedTuple):
    """Finished runs that were computed side by side."""

    points: Sequence[Point]
    chunks: Sequence[Chunk]
    stated: Sequence[Mapping[str, Any]]  # `mechanism.of` of each run


class Waves:
    """Compiles and runs wave after wave; `attrs` counts programs and seconds so far."""

    def __init__(
        self,
        make: Callable[..., Algorithm],
        grid: Grid,
        key: Key,
        params: PyTree | Callable[[Key], PyTree],
        data: ClientData | Callable[..., ClientData],
        *,
        lengths: list[int],
        evaluate: Evaluate | None,
        static: frozenset[str],
        at_once: int | None,
        memory: float | None,
        over: Over,
    ):
        """The arguments of `sweep`; `lengths` are the rounds of each chunk."""
        _validate.one_of(("auto", "runs", "clients"), over=over)
        if at_once is not None:
            _validate.integer(at_once=at_once)
        if memory is not None:
            _validate.positive(memory=memory)
        if memory is not None and at_once is not None:
            raise ValueError(f"memory must not be given with at_once = {at_once}, which decides the same, got {memory}")
        self.make, self.grid, self.key, self.params, self.data = make, grid, key, params, data
        self.lengths, self.evaluate, self.over, self.at_once, self.memory = lengths, evaluate, over, at_once, memory
        self.kinds = axis_kinds(grid, make, data, static)
        self.shared = points_by_program(grid, self.kinds)
        self.stated = dict[Point, Mapping[str, Any]]()
        if not _is_init(params):
            check_params(params)
        if not callable(data):
            checks.check_data(data)
        caveats = " / ".join(self._caveats())
        self.attrs: dict[str, Any] = {
            "programs": 0, "compile_seconds": 0.0, "waves": 0, "num_params": self._num_params(), "caveats": caveats
        }  # fmt: skip

    def _num_params(self) -> int:
        """Counted here and not by a program: if all waves of a resumed sweep are done, no program is compiled."""
        return sum(leaf.size for leaf in jax.tree.leaves(self._shapes()))

    def _shapes(self) -> PyTree:
        """The parameters of a run, or their shapes."""
        return jax.eval_shape(self.params, self.key) if _is_init(self.params) else self.params

    def _caveats(self) -> list[str]:
        """Caveats of the algorithms at all points, without repetition. Makes every algorithm: this checks arguments."""
        caveats: dict[str, None] = {}
        for shared in self.shared:
            for point in shared.points:
                caveats.update(dict.fromkeys(self._algorithm(shared, point).caveats))
        return list(caveats)

    def check_rounds(self) -> None:
        """Traces a round of every program except the first, which is traced anyway before anything runs.

        Raises:
          ValueError: the arguments at a point do not fit each other, the model or the samples.
        """
        own = [(shared, points) for shared in self.shared for points in shared.by_data.values()]
        for shared, points in own[1:]:
            algorithm, data = self._algorithm(shared, points[0]), self._data_at(points[0], None)

            def trace(key: Key, params: PyTree, data: ClientData, algorithm: Algorithm = algorithm) -> PyTree:
                return algorithm.step(key, algorithm.init(key, params, data), data)

            jax.eval_shape(trace, self.key, self._shapes(), data)

    def run(self, hooks: Hooks) -> Iterator[Wave]:
        """Runs wave after wave; reads waves that the writer's folder holds."""
        for number, (points, inputs, compiled) in enumerate(self._plan(hooks.writer)):
            chunks = hooks.writer.finished_chunks(number) if hooks.writer else []
            if len(chunks) <= len(self.lengths):
                stop_if_asked(hooks, f"before wave {number}")
                labels = [self.grid.label(point) for point in points]
                chunks = []
                for chunk in run_chunks(compiled(), inputs, self.lengths, hooks, points=labels, wave=number):
                    result_dataset.add(chunk, chunks)
            self.attrs["waves"] += 1
            yield Wave(points, chunks, [self.stated[point] for point in points])

    def check(self, writer: RunWriter) -> None:
        """Checks that a finished sweep depended on the same things as this one.

        Raises:
          ValueError: it was another sweep; the difference is named.
        """
        for _ in self._plan(writer):
            pass

    def _plan(self, writer: RunWriter | None) -> Iterator[tuple[Sequence[Point], Inputs, Callable[[], CompiledRuns]]]:
        """Points, inputs and programs of each wave; all are recorded as facts, or compared with recorded facts."""
        numbers = itertools.count()
        for shared in self.shared:
            programs = {}
            for points in shared.by_data.values():
                data = self._data_at(points[0], writer)
                self.stated |= {point: mechanism.of(self._algorithm(shared, point), data.count) for point in points}
                where = self._layout(shared, points, data, writer)
                placed = processes.place(data, where.data)
                shapes = tuple((a.shape, str(a.dtype)) for a in jax.tree.leaves(data))
                if shapes not in programs:
                    name = f"{shared.number}.{len(programs)}"
                    programs[shapes] = self._program(shared, points, placed, where, writer=writer, name=name)
                size, compiled = programs[shapes]
                for own in (points[first : first + size] for first in range(0, len(points), size)):
                    inputs = self._inputs(own, size, placed, where)
                    if writer:
                        told_apart = (np.array(own), inputs.point, jax.random.key_data(inputs.key), inputs.params)
                        writer.fact(f"inputs of wave {next(numbers)}", digest(told_apart))
                    yield own, inputs, compiled

    def _program(
        self, shared: SharedProgram, points: Sequence[Point], data: ClientData, where: Layout,
        *, writer: RunWriter | None, name: str,
    ) -> tuple[int, Callable[[], CompiledRuns]]:  # fmt: skip
        """How many runs of a wave fit the memory, and a function that gives their compiled programs."""
        of_size = f"runs at once of program {name}"
        size = writer.facts.get(of_size) if writer else None
        if size is None:
            fitting, lowered, size = self._fit(shared, points, data, where)
            compiled = lambda: fitting
        else:
            lowered = self._lower(shared, self._inputs(points, size, data, where), where)
            compiled = functools.cache(lambda: self._compile(lowered))
        if writer:
            writer.fact(of_size, size)
            for of_program, value in lowered.digests.items():
                writer.fact(of_program.replace("program", f"program {name}", 1), value)
        return size, compiled

    def _data_at(self, point: Point, writer: RunWriter | None) -> ClientData:
        names = {name: value for name, value in self.grid.at(point).items() if name in self.kinds.data}
        data = self.data(**names) if callable(self.data) else self.data
        checks.check_data(data)
        if writer:
            of = {name: label for name, label in self.grid.label(point).items() if name in self.kinds.data}
            writer.fact(f"data {of}" if of else "data", digest(data))
        return data

    def _layout(
        self, shared: SharedProgram, points: Sequence[Point], data: ClientData, writer: RunWriter | None
    ) -> Layout:
        """Spreads runs over devices if there are enough runs, else clients. A resumed sweep keeps its first choice."""
        devices, most = jax.devices(), min(self.at_once or len(points), len(points))
        by_runs = self.over == "runs" or (self.over == "auto" and 1 < len(devices) <= most)
        if writer:
            name = f"whole runs on devices of program {shared.number}"
            writer.fact(name, int(by_runs))
            by_runs = writer.facts[name]
        if by_runs:
            return layout.runs_over_devices(devices)
        mesh = self._algorithm(shared, points[0]).mesh or clients_mesh([*jnp.zeros(()).devices()])
        return layout.clients_over_devices(mesh, len(data.count))

    def _algorithm(self, shared: SharedProgram, point: Point) -> Algorithm:
        """The algorithm at a point, made with Python numbers, as for `simulate`.

        Raises:
          ValueError: `make` returned something else, such as local training.
        """
        at = self.grid.at(point)
        made = self.make(**shared.static, **{name: at[name] for name in sorted(self.kinds.traced)})
        _validate.part(Algorithm, "systems.fedavg(local)", **{"what make returns": made})
        return made

    def _fit(
        self, shared: SharedProgram, points: Sequence[Point], data: ClientData, where: Layout
    ) -> tuple[CompiledRuns, Lowered, int]:
        """Halves the number of runs in a wave until the wave fits the memory."""
        devices = len(where.devices) if where.by_runs else 1
        budget = self.memory or FRACTION_OF_FREE_MEMORY * free_bytes(where.devices)
        most = len(max(shared.by_data.values(), key=len))
        size = _even(most, self.at_once or devices * math.ceil(most / devices), devices)
        while True:
            lowered = self._lower(shared, self._inputs(points, size, data, where), where)
            compiled = self._compile(lowered)
            if self.at_once or compiled.bytes <= budget or size <= devices:
                return compiled, lowered, size
            size = _even(most, size // 2, devices)

    def _lower(self, shared: SharedProgram, inputs: Inputs, where: Layout) -> Lowered:
        def make(**traced: Any) -> Algorithm:
            with _named(traced):
                algorithm = self.make(**shared.static, **traced)
            if algorithm.mesh is not None and where.by_runs:
                raise ValueError("make must leave mesh at 'auto' unless over='clients', got a mesh")
            return algorithm

        return lower_runs(
            make, inputs, layout=where, lengths=self.lengths, evaluate=self.evaluate, named=self.grid.names
        )

    def _compile(self, lowered: Lowered) -> CompiledRuns:
        compiled = lowered.compile()
        self.attrs["programs"] += compiled.attrs["programs"]
        self.attrs["compile_seconds"] += compiled.attrs["compile_seconds"]
        return compiled

    def _inputs(self, points: Sequence[Point], size: int, data: ClientData, where: Layout) -> Inputs:
        """Inputs of a wave of `size` runs; if there are fewer points, the last one is repeated."""
        points = [*points[:size], *[points[-1]] * (size - len(points))]
        at = [self.grid.at(point) for point in points]
        traced = {name: jnp.asarray([each[name] for each in at], jnp.float32) for name in sorted(self.kinds.traced)}
        keys = [jax.random.fold_in(self.key, each[SEED]) if SEED in each else self.key for each in at]
        params = self._params(keys, [each.get(SEED) for each in at])
        traced, keys, params = processes.place((traced, jnp.stack(keys), params), where.inputs)
        return Inputs(traced, keys, params, data)

    def _params(self, keys: Sequence[Key], seeds: Sequence[Any]) -> PyTree:
        if not _is_init(self.params):
            return jax.tree.map(lambda a: jnp.broadcast_to(jnp.asarray(a, a.dtype), (len(keys), *a.shape)), self.params)
        init = jax.jit(self.params)
        of = {seed: init(named(key, "params")) for seed, key in dict(zip(seeds, keys, strict=True)).items()}
        check_params(next(iter(of.values())))
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *(of[seed] for seed in seeds))


def _is_init(params: PyTree | Callable[[Key], PyTree]) -> bool:
    """Whether `params` is a function that makes parameters. Parameters may be callable too: an equinox module is."""
    return callable(params) and not any(hasattr(leaf, "dtype") for leaf in jax.tree.leaves(params))


def _even(most: int, size: int, devices: int) -> int:
    """A multiple of the devices that splits `most` runs evenly: up to `size`, but at least a run on each device."""
    parts = math.ceil(most / max(size // devices * devices, devices))
    return devices * math.ceil(most / (parts * devices))


@contextlib.contextmanager
def _named(traced: Collection[str]) -> Iterator[None]:
    """Rewrites JAX's errors about traced values: says which axes they may be about, and what to do."""
    try:
        yield
    except jax.errors.JAXTypeError as error:
        if not traced:
            raise
        names = ", ".join(traced)
        raise ValueError(
            f"axes must be in static if make branches on their values or computes with them in NumPy, got {names} "
            "as traced values"
        ) from error

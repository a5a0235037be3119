"""The runs of a sweep in batches: those that share what is static share a program, and each batch fits the memory."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, ClientData, Key
from fedjax_priv.engine import processes
from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.keys import named
from fedjax_priv.runs import checks, runner
from fedjax_priv.runs.grid import Grid, Point
from fedjax_priv.runs.programs import layout
from fedjax_priv.runs.programs.evaluation import Evaluate
from fedjax_priv.runs.programs.free_memory import free_bytes
from fedjax_priv.runs.programs.layout import Layout
from fedjax_priv.runs.programs.run_program import Engine, Inputs, Lowered, lower_runs
from fedjax_priv.runs.records import result_dataset
from fedjax_priv.runs.records.digests import digest
from fedjax_priv.runs.records.journal import Journal
from fedjax_priv.runs.records.result_dataset import Chunk
from fedjax_priv.runs.shared_programs import SEED, Group, groups, roles

SHARE = 0.5
"""Of the free memory, what a batch may take unless told otherwise."""

Over = Literal["auto", "runs", "clients"]


class Batch(NamedTuple):
    """Runs side by side that are finished."""

    points: Sequence[Point]
    chunks: Sequence[Chunk]


class Batches:
    """Compiles and runs batch after batch; `attrs` says what that took so far."""

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
        """As of `sweep`."""
        _validate.one_of(("auto", "runs", "clients"), over=over)
        if at_once is not None:
            _validate.integer(at_once=at_once)
        if memory is not None:
            _validate.positive(memory=memory)
        self.make, self.grid, self.key, self.params, self.data = make, grid, key, params, data
        self.lengths, self.evaluate, self.over, self.at_once, self.memory = lengths, evaluate, over, at_once, memory
        self.roles = roles(grid, make, data, static)
        self.groups = groups(grid, self.roles)
        self.attrs: dict[str, Any] = {"programs": 0, "compile_seconds": 0.0, "batches": 0, "num_params": 0}
        if not callable(params):
            checks.check_params(params)
        if not callable(data):
            checks.check_data(data)
        caveats: dict[str, None] = {}
        for group in self.groups:
            for point in group.points:
                algorithm = self._algorithm(group, point)
                if algorithm.in_blocks is not None:
                    raise ValueError("block must be a number in a sweep, got 'auto'")
                caveats.update(dict.fromkeys(algorithm.caveats))
        self.attrs["caveats"] = " / ".join(caveats)

    def run(self, watch: runner.Watch) -> Iterator[Batch]:
        """Batch after batch; those that a journal has finished are read."""
        for number, (points, inputs, compiled) in enumerate(self._plan(watch.journal)):
            chunks = watch.journal.finished(number) if watch.journal else []
            if len(chunks) <= len(self.lengths):
                runner.stop_if_asked(watch, f"before batch {number}")
                labels = [self.grid.label(point) for point in points]
                run = runner.follow(compiled(), inputs, self.lengths, watch, points=labels, batch=number)
                chunks = _collect(run)
            self.attrs["batches"] += 1
            yield Batch(points, chunks)

    def check(self, book: Journal) -> None:
        """Compare all that a finished sweep depended on.

        Raises:
          ValueError: it was another sweep; the difference is named.
        """
        for _ in self._plan(book):
            pass

    def _plan(self, book: Journal | None) -> Iterator[tuple[Sequence[Point], Inputs, Callable[[], Engine]]]:
        """Points, inputs and programs of each batch, written down or compared with what is written."""
        batches = itertools.count()
        for group in self.groups:
            programs = {}
            for points in group.by_data.values():
                data = self._data_at(points[0], book)
                where = self._layout(group, points, data)
                placed = processes.place(data, where.data)
                shapes = tuple((a.shape, str(a.dtype)) for a in jax.tree.leaves(data))
                if shapes not in programs:
                    name = f"{group.number}.{len(programs)}"
                    programs[shapes] = self._program(group, points, placed, where, book, name)
                size, compiled = programs[shapes]
                for own in _in_parts(points, size):
                    inputs = self._inputs(own, size, placed, where)
                    if book:
                        book.fact(f"inputs of batch {next(batches)}", _digest(own, inputs))
                    yield own, inputs, compiled

    def _program(
        self, group: Group, points: Sequence[Point], data: ClientData, where: Layout, book: Journal | None, name: str
    ) -> tuple[int, Callable[[], Engine]]:
        """Runs in a batch, as many as fit the memory, and their programs, compiled when they are asked for."""
        of_size = f"runs at once, group {name}"
        size = book.facts.get(of_size) if book else None
        if size is None:
            engine, lowered, size = self._fit(group, points, data, where)
            compiled = lambda: engine
        else:
            lowered = self._lower(group, self._inputs(points, size, data, where), where)
            compiled = functools.cache(lambda: self._compile(lowered))
        if book:
            book.fact(of_size, size)
            for of_program, value in lowered.digests.items():
                book.fact(f"{of_program}, group {name}", value)
        return size, compiled

    def _data_at(self, point: Point, book: Journal | None) -> ClientData:
        names = {name: value for name, value in self.grid.at(point).items() if name in self.roles.data}
        data = self.data(**names) if callable(self.data) else self.data
        checks.check_data(data)
        if book:
            of = {name: label for name, label in self.grid.label(point).items() if name in self.roles.data}
            book.fact(f"data {of}" if of else "data", digest(data))
        return data

    def _layout(self, group: Group, points: Sequence[Point], data: ClientData) -> Layout:
        """Runs over devices where there are enough of them; otherwise the clients of all runs."""
        devices = jax.devices()
        if self.over == "runs" or (self.over == "auto" and 1 < len(devices) <= len(points)):
            return layout.spread(devices)
        mesh = self._algorithm(group, points[0]).mesh or clients_mesh([*jnp.zeros(()).devices()])
        return layout.beside(mesh, len(data.count))

    def _algorithm(self, group: Group, point: Point) -> Algorithm:
        """The algorithm at a point, made of numbers as `simulate` would be given it."""
        at = self.grid.at(point)
        return self.make(**group.static, **{name: at[name] for name in sorted(self.roles.traced)})

    def _fit(
        self, group: Group, points: Sequence[Point], data: ClientData, where: Layout
    ) -> tuple[Engine, Lowered, int]:
        """Halves the runs in a batch until they fit the memory."""
        devices = len(where.devices) if where.by_runs else 1
        budget = self.memory or SHARE * free_bytes(where.devices)
        most = len(max(group.by_data.values(), key=len))
        size = _even(most, min(self.at_once or most, most), devices)
        while True:
            lowered = self._lower(group, self._inputs(points, size, data, where), where)
            engine = self._compile(lowered)
            if self.at_once or engine.bytes <= budget or size <= devices:
                return engine, lowered, size
            size = _even(most, size // 2, devices)

    def _lower(self, group: Group, inputs: Inputs, where: Layout) -> Lowered:
        def make(**traced: Any) -> Algorithm:
            algorithm = self.make(**group.static, **traced)
            if algorithm.mesh is not None and where.by_runs:
                raise ValueError("make must leave mesh at 'auto', or the sweep be over='clients'")
            return algorithm

        return lower_runs(
            make, inputs, layout=where, lengths=self.lengths, evaluate=self.evaluate, named=self.grid.names
        )

    def _compile(self, lowered: Lowered) -> Engine:
        engine = lowered.compile()
        self.attrs["programs"] += engine.attrs["programs"]
        self.attrs["compile_seconds"] += engine.attrs["compile_seconds"]
        self.attrs["num_params"] = max(self.attrs["num_params"], engine.attrs["num_params"])
        return engine

    def _inputs(self, points: Sequence[Point], size: int, data: ClientData, where: Layout) -> Inputs:
        """Of a batch of `size` runs; the last point stands in for those that are missing."""
        points = [*points[:size], *[points[-1]] * (size - len(points))]
        at = [self.grid.at(point) for point in points]
        traced = {name: jnp.asarray([each[name] for each in at], jnp.float32) for name in sorted(self.roles.traced)}
        keys = [jax.random.fold_in(self.key, each[SEED]) if SEED in each else self.key for each in at]
        params = self._params(keys, [each.get(SEED) for each in at])
        traced, keys, params = processes.place((traced, jnp.stack(keys), params), where.inputs)
        return Inputs(traced, keys, params, data)

    def _params(self, keys: Sequence[Key], seeds: Sequence[Any]) -> PyTree:
        if not callable(self.params):
            return jax.tree.map(lambda a: jnp.broadcast_to(jnp.asarray(a, a.dtype), (len(keys), *a.shape)), self.params)
        init = jax.jit(self.params)
        of = {seed: init(named(key, "params")) for seed, key in dict(zip(seeds, keys, strict=True)).items()}
        checks.check_params(next(iter(of.values())))
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *(of[seed] for seed in seeds))


def _digest(points: Sequence[Point], inputs: Inputs) -> str:
    """Of what tells the runs of a batch from those of another."""
    return digest((np.array(points), inputs.point, jax.random.key_data(inputs.key), inputs.params))


def _collect(run: Iterator[Chunk]) -> list[Chunk]:
    chunks: list[Chunk] = []
    for chunk in run:
        result_dataset.add(chunk, chunks)
    return chunks


def _in_parts(points: Sequence[Point], size: int) -> Iterator[Sequence[Point]]:
    return (points[first : first + size] for first in range(0, len(points), size))


def _even(most: int, size: int, devices: int) -> int:
    """About `size` runs, a multiple of the devices, so that the last of the batches of `most` is not much smaller."""
    parts = math.ceil(most / max(size, devices))
    return devices * math.ceil(most / (parts * devices))

"""A run over a population that does not fit the devices: each round gets only the samples and state of its cohort.

Who takes part does not depend on the model, so cohorts are drawn ahead, and their samples are fetched while earlier
rounds are computed. Client state stays on the host.
"""

import itertools
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, PyTree

from fedjax_priv.base import Algorithm, ClientData, RoundState
from fedjax_priv.data import Pool, prefetch
from fedjax_priv.data.pool import checked
from fedjax_priv.engine.side_by_side import on_devices_of
from fedjax_priv.runs.programs import layout, lowering
from fedjax_priv.runs.programs.evaluation import Evaluate, compile_evaluation
from fedjax_priv.runs.programs.host_rows import HostRows
from fedjax_priv.runs.programs.run_program import (
    CompiledRuns,
    Inputs,
    Lowered,
    compile_attrs,
    empty_chunk,
    first_axis,
    kept_info,
)
from fedjax_priv.runs.records import result_dataset

AHEAD = 8
"""Cohorts of so many rounds are drawn at once."""


class PoolState(NamedTuple):
    """State of a run after the rounds so far."""

    state: RoundState  # without client state
    rows: HostRows  # client state: (memory, layers)
    cohorts: Iterator[tuple[np.ndarray, PyTree]]  # for the rounds to come: clients, and their samples on the devices


def lower_pool_run(
    algorithm: Algorithm, inputs: Inputs, pool: Pool, *, mesh: Mesh, rounds: int, evaluate: Evaluate | None
) -> Lowered:
    """The program of one round over a pool. Draws, and sums of the same updates, equal those of a run on the devices.

    Args:
      algorithm: must have a `draw`, as `federated_round` gives it. All clients must start with the same state.
      inputs: of the run, on the devices.
      pool: the population.
      mesh: the devices over which the cohort is spread.
      rounds: of the whole run.
      evaluate: called before the first chunk of rounds and after each chunk.

    Raises:
      ValueError: the algorithm has no `draw`, clients start with different states, the run has several processes, or
        `checked` or `compile_evaluation` raises.
    """
    if jax.process_count() > 1:
        raise ValueError("data must be a ClientData in a run of several processes, got a Pool")
    began = time.perf_counter()
    run = _PoolRun(algorithm, inputs, checked(pool), mesh, rounds)
    info = run.lowered.out_info[1]
    evaluation = compile_evaluation(evaluate, inputs.params, run.where, result_dataset.names(info))
    digests = {"program of a round": run.lowered.digest, "program of evaluate": evaluation.digest}

    def compile_all() -> CompiledRuns:
        step = run.lowered.compile()
        no_rounds = jax.tree.map(lambda a: jnp.zeros((0, *a.shape), a.dtype), info)
        return CompiledRuns(
            empty=empty_chunk(no_rounds, evaluation, inputs.params, run.where),
            attrs=compile_attrs(inputs.params, run.where, began, 1),
            bytes=lowering.peak_bytes(step),
            evaluation=evaluation,
            start=run.start,
            advance=lambda inputs, now, length: run.advance(step, inputs, now, length, evaluation),
            params=lambda now: now.state.params,
            save=lambda now: [*jax.device_get(jax.tree.leaves(now.state)), *now.rows.snapshot().values()],
            load=run.load,
        )

    return Lowered(digests, compile_all)


class _PoolRun:
    def __init__(self, algorithm: Algorithm, inputs: Inputs, pool: Pool, mesh: Mesh, rounds: int):
        if algorithm.draw is None:
            raise ValueError("algorithm must have a draw, as from federated_round, to run over a Pool")
        self.algorithm, self.draw_round, self.pool, self.rounds = algorithm, algorithm.draw, pool, rounds
        everywhere = layout.one_run(mesh, 1).whole
        self.count = jax.device_put(pool.count, everywhere)
        self.sample = pool.fetch(np.zeros(1, np.int32))
        self.init = jax.jit(on_devices_of(mesh, self._init), out_shardings=everywhere)
        self.draw = jax.jit(on_devices_of(mesh, self._draw))
        first, alike = self.init(inputs, self.count)
        if not alike:
            raise ValueError("algorithm must give all clients the same initial state to run over a Pool")
        size = jax.eval_shape(self.draw, inputs, first.draw, first.round, self.count)[1].shape[1]
        self.where = layout.one_run(mesh, size)
        held = lambda a: jax.dtypes.canonicalize_dtype(a.dtype)  # a pool may hold float64 and int64
        row = lambda a: jax.ShapeDtypeStruct((size, *a.shape), held(a), sharding=self.where.data)
        whole = lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=everywhere)
        state = jax.tree.map(whole, first)._replace(**jax.tree.map(row, dict(memory=first.memory, layers=first.layers)))
        examples = jax.tree.map(lambda a: row(a[0]), self.sample)
        step = on_devices_of(mesh, self._step)
        step = jax.jit(step, donate_argnums=1, out_shardings=(self.where.state, self.where.whole))
        self.lowered = lowering.lower(step, inputs, state, examples, self.count)

    def _init(self, inputs: Inputs, count: Array) -> tuple[RoundState, Array]:
        """The first state, with the rows of one client, and whether all clients' rows are the same."""
        examples = jax.tree.map(lambda a: jnp.broadcast_to(a, (count.size, *a.shape[1:])), self.sample)
        state = self.algorithm.init(inputs.key, inputs.params, ClientData(examples, count))
        rows = state.memory, state.layers
        alike = [(a == a[:1]).all() for a in jax.tree.leaves(rows)]
        memory, layers = jax.tree.map(lambda a: a[0], rows)
        return jax.tree.map(jnp.copy, state._replace(memory=memory, layers=layers)), jnp.array(alike, bool).all()

    def _draw(self, inputs: Inputs, state: PyTree, round: Array, count: Array) -> tuple[PyTree, Array]:
        """Clients `[AHEAD, k]` of the next rounds, and the state of the draw after them."""

        def one(state: PyTree, round: Array) -> tuple[PyTree, Array]:
            who, state = self.draw_round(inputs.key, state, round, count)
            return state, who.client

        return jax.lax.scan(one, state, round + jnp.arange(AHEAD))

    def _step(self, inputs: Inputs, state: RoundState, examples: PyTree, count: Array) -> tuple[RoundState, dict]:
        state, info = self.algorithm.step(inputs.key, state, ClientData(examples, count))
        return state, kept_info(info)

    def start(self, inputs: Inputs) -> PoolState:
        first, _ = self.init(inputs, self.count)
        rows = HostRows(jax.device_get((first.memory, first.layers)), len(self.pool.count))
        return self._pool_state(inputs, first._replace(memory=(), layers=()), rows)

    def load(self, inputs: Inputs, arrays: list[np.ndarray]) -> PoolState:
        fresh = self.start(inputs)
        leaves, structure = jax.tree.flatten(fresh.state)
        state = jax.device_put(structure.unflatten(arrays[: len(leaves)]), self.where.whole)
        fresh.rows.restore(dict(zip(fresh.rows.snapshot(), arrays[len(leaves) :], strict=True)))
        return self._pool_state(inputs, state, fresh.rows)

    def _pool_state(self, inputs: Inputs, state: RoundState, rows: HostRows) -> PoolState:
        fetch = lambda ids: (ids, self.pool.fetch(ids))
        place = lambda fetched: (fetched[0], jax.device_put(fetched[1], self.where.data))
        first = jax.tree.map(jnp.copy, (state.draw, state.round))  # a step consumes its state
        return PoolState(state, rows, prefetch(fetch, self._cohorts(inputs, *first), place=place))

    def _cohorts(self, inputs: Inputs, draw: PyTree, first: Array) -> Iterator[np.ndarray]:
        """Clients of each round to come."""
        for at in range(int(first), self.rounds, AHEAD):
            draw, clients = self.draw(inputs, draw, jnp.int32(at), self.count)
            yield from itertools.islice(np.asarray(clients), self.rounds - at)

    def advance(self, step: Any, inputs: Inputs, now: PoolState, length: int, evaluation: Any) -> tuple:
        state, infos = now.state, []
        for ids, examples in itertools.islice(now.cohorts, length):
            memory, layers = jax.device_put(now.rows.take(ids), self.where.data)
            state, info = step(inputs, state._replace(memory=memory, layers=layers), examples, self.count)
            jax.block_until_ready(infos[-1:])  # at most one round is under way, so that samples do not pile up
            now.rows.put(ids, (state.memory, state.layers))
            state = state._replace(memory=(), layers=())
            infos.append(info)
        infos = jax.tree.map(lambda *rounds: np.stack(rounds), *jax.device_get(infos))
        flat = evaluation.ravel(state.params)
        return now._replace(state=state), flat, first_axis(infos, self.where)

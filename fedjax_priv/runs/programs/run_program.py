"""Compiles runs: a chunk of rounds is one scan, and one program serves all chunks of the same length.

The state stays on the devices and is overwritten in place; keys, parameters and data are arguments of the programs.
"""

import collections
import functools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from fedjax_priv.base import Algorithm, ClientData, Key, RoundInfo, RoundState
from fedjax_priv.engine import processes
from fedjax_priv.runs.programs import lowering
from fedjax_priv.runs.programs.evaluation import Evaluate, Evaluation, compile_evaluation
from fedjax_priv.runs.programs.kept_programs import KeptPrograms, kept_or_lowered
from fedjax_priv.runs.programs.layout import Layout
from fedjax_priv.runs.programs.lowering import LoweredProgram
from fedjax_priv.runs.records import result_dataset


class Inputs(NamedTuple):
    """Inputs of a run, or of the `p` runs of a wave: then all but `data` are `[p, ...]`."""

    point: Mapping[str, Any]  # arguments of the factory
    key: Key
    params: PyTree
    data: PyTree = ()  # on the devices, the same for all runs; () for a pool, which fetches samples


class CompiledRuns(NamedTuple):
    """A run, or the runs of a wave, ready to start. `state` is the state after the rounds so far."""

    empty: result_dataset.Chunk  # a chunk without a round, for shapes and names
    attrs: dict[str, Any]  # `num_params`, `compile_seconds`, number of `programs` compiled
    bytes: int  # memory that a chunk takes on a device
    evaluation: Evaluation
    start: Callable[[Inputs], Any]  # inputs -> state
    advance: Callable[..., tuple]  # (inputs, state, rounds) -> (state, params [p, d], info): a chunk
    params: Callable[[Any], PyTree]  # state -> parameters
    save: Callable[[Any], list[np.ndarray]]  # state -> arrays
    load: Callable[[Inputs, list[np.ndarray]], Any]  # (inputs, arrays) -> state


class Lowered(NamedTuple):
    """Runs whose programs are not compiled yet."""

    digests: dict[str, str]  # of the programs, by name
    compile: Callable[[], CompiledRuns]


def lower_runs(
    make: Callable[..., Algorithm],
    inputs: Inputs,
    *,
    layout: Layout,
    lengths: Iterable[int],
    evaluate: Evaluate | None,
    named: Iterable[str] = (),
    kept: KeptPrograms | None = None,
) -> Lowered:
    """Lowers the programs of runs whose client data and client state are on the devices.

    Args:
      make: `make(**point)` is the algorithm; called inside jit.
      inputs: of the runs, or of other runs with the same shapes; on their devices.
      layout: of runs and clients on the devices.
      lengths: the numbers of rounds that a chunk can have; there is one program for each.
      evaluate: called before the first chunk and after each chunk.
      named: names that metrics must not have, in addition to those of results and logs.
      kept: where whole programs are kept; `kept.about` must determine `make`.

    Raises:
      ValueError: as in `compile_evaluation`.
    """
    began = time.perf_counter()
    start = jax.jit(functools.partial(_start, make, layout), out_shardings=layout.state)
    own, data = _own(inputs), inputs.data
    state = jax.eval_shape(start, own, data)
    lowered = {n: _lower(make, n, layout, (own, state, data), kept) for n in sorted({*lengths})}
    info = next(iter(lowered.values())).out_info[-1]
    evaluation = compile_evaluation(evaluate, inputs.params, layout, (*named, *result_dataset.names(info)))

    def compile_all() -> CompiledRuns:
        compiled = {n: program.compile() for n, program in lowered.items()}

        def advance(inputs: Inputs, state: RoundState, rounds: int) -> tuple:
            state, params, info = compiled[rounds](_own(inputs), state, inputs.data)
            return state, params, first_axis(jax.device_get(info), layout)

        return CompiledRuns(
            empty=empty_chunk(info, evaluation, inputs.params, layout),
            attrs=compile_attrs(inputs.params, layout, began, len(compiled)),
            bytes=max(map(lowering.peak_bytes, compiled.values())),
            evaluation=evaluation,
            start=lambda inputs: start(_own(inputs), inputs.data),
            advance=advance,
            params=lambda state: state.params,
            save=lambda state: processes.on_host(jax.tree.leaves(state)),
            load=lambda inputs, arrays: layout.place_state(jax.tree.unflatten(jax.tree.structure(state), arrays)),
        )

    digests = {f"program of {n} rounds": program.digest for n, program in lowered.items()}
    return Lowered(digests | {"program of evaluate": evaluation.digest}, compile_all)


def _start(make: Callable[..., Algorithm], layout: Layout, inputs: Inputs, data: ClientData) -> RoundState:
    """The state before the first round."""

    def one(inputs: Inputs, data: ClientData) -> RoundState:
        state = make(**inputs.point).init(inputs.key, inputs.params, data)
        return jax.tree.map(jnp.copy, state)  # donated later: it must not share arrays with the caller, or with itself

    states = layout.each(one, 1)(inputs, data)
    return states._replace(round=states.round.reshape(-1)[0])


def _own(inputs: Inputs) -> Inputs:
    """Only the arrays that differ between runs."""
    return inputs._replace(data=())


def _lower(
    make: Callable[..., Algorithm], rounds: int, layout: Layout, args: tuple, kept: KeptPrograms | None
) -> LoweredProgram:
    """The program of `rounds` rounds. It also returns a ravelled copy of the parameters, as the state will be donated.

    All runs share the number of the round, so clients scheduled for this round, and their samples, are looked up once.
    """

    def run(inputs: Inputs, state: RoundState, numbers: jax.Array, data: ClientData) -> tuple:
        step = make(**inputs.point).step

        def one(state: RoundState, number: jax.Array) -> tuple:
            state, info = step(inputs.key, state._replace(round=number), data)
            return state._replace(round=()), kept_info(info)

        state, info = jax.lax.scan(one, state, numbers)
        return state, ravel_pytree(state.params)[0], info

    def runs(inputs: Inputs, state: RoundState, data: ClientData) -> tuple:
        numbers = state.round + jnp.arange(rounds, dtype=jnp.int32)
        after, params, info = layout.each(run, 2)(inputs, state._replace(round=()), numbers, data)
        return after._replace(round=state.round + rounds), params, info

    inputs, state, data = args
    laid = RoundState._make(map(_with_sharding, state, layout.state))
    program = jax.jit(runs, donate_argnums=1, out_shardings=(layout.state, layout.out, layout.out))
    args = (inputs, laid, data)
    if kept is None:
        return lowering.lower(program, *args)
    return kept_or_lowered(kept, rounds, args, layout.devices, lambda: lowering.lower(program, *args))


def _with_sharding(tree: PyTree, sharding: Any) -> PyTree:
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding), tree)


def kept_info(info: RoundInfo) -> dict[str, Any]:
    """The fields of `RoundInfo` that the result keeps; `bits` in an OrderedDict, as JAX sorts keys of a plain dict."""
    kept = info._replace(bits=collections.OrderedDict(info.bits))._asdict()
    del kept["direction"]
    measured, observed = kept.pop("measured"), kept.pop("observed")
    return kept | result_dataset.flat_measured(measured) | result_dataset.flat_observed(observed, measured)


def first_axis(tree: PyTree, layout: Layout) -> PyTree:
    """Host arrays with a leading axis of runs, of length 1 for a single run."""
    return tree if layout.runs else jax.tree.map(lambda a: np.asarray(a)[None], tree)


def empty_chunk(info: PyTree, evaluation: Evaluation, params: PyTree, layout: Layout) -> result_dataset.Chunk:
    """A chunk of no rounds; the other axes are those of a chunk with rounds."""
    params = first_axis(processes.on_host(evaluation.ravel(params)), layout)
    none = lambda of: np.zeros((len(params), 0, *of.shape[2 if layout.runs else 1 :]), of.dtype)
    metrics = dict.fromkeys(evaluation.names, np.zeros(len(params)))
    return result_dataset.Chunk(0, 0.0, jax.tree.map(none, info), metrics, params)


def compile_attrs(params: PyTree, layout: Layout, began: float, compiled: int) -> dict[str, Any]:
    """Attributes of the result about its programs: how many, and how long compiling took."""
    size = sum(leaf[0].size if layout.runs else leaf.size for leaf in jax.tree.leaves(params))
    seconds = time.perf_counter() - began
    return {"num_params": size, "compile_seconds": seconds, "programs": compiled}

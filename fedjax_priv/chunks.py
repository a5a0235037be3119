"""A run as compiled programs: a chunk of rounds is one scan, and one program serves all chunks of a length.

The state stays on the devices and is overwritten in place; key and data are arguments of the program.
"""

import collections
import functools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from fedjax_priv import results
from fedjax_priv.base import Algorithm, ClientData, Key, RoundState

Evaluate = Callable[[PyTree], Mapping[str, Any]]
"""`params -> {name: scalar}`"""


class Run(NamedTuple):
    """A run that is compiled and about to start."""

    chunks: Iterator[results.Chunk]  # the first one has no round, but the evaluation before the run
    empty: results.Chunk  # without a round, for shapes and names
    attrs: dict[str, Any]  # what compiling took, and the number of parameters


def prepare(
    algorithm: Algorithm, key: Key, params: PyTree, data: ClientData, *, evaluate: Evaluate | None, lengths: list[int]
) -> Run:
    """Compile a run; the arguments are on their devices, and memory and layers lie as the data do.

    Args:
      algorithm: what to run.
      key: root key.
      params: initial parameters, float32 leaves.
      data: samples of every client.
      evaluate: to be called before the first chunk and after each.
      lengths: rounds of each chunk. Each length that occurs is one program.

    Raises:
      ValueError: `evaluate` does not return a dict of scalars, or one of its names is taken.
    """
    whole, rows = key.sharding, data.count.sharding
    where = RoundState._make([whole] * len(RoundState._fields))._replace(memory=rows, layers=rows)
    # The state is donated, and `init` may hand out the caller's arrays or one array twice: `device_put` does not copy.
    state = jax.device_put(jax.tree.map(jnp.copy, algorithm.init(key, params, data)), where)
    start = time.perf_counter()
    flat, unravel = ravel_pytree(params)
    first = flat.addressable_data(0)
    measure, metrics = _compile_evaluation(evaluate, unravel, first)
    compiled, info = {}, None
    for length in set(lengths):
        program = functools.partial(_rounds, algorithm, length)
        lowered = jax.jit(program, donate_argnums=1, out_shardings=(where, whole, whole)).lower(key, state, data)
        compiled[length], info = lowered.compile(), lowered.out_info[-1]
    empty = jax.tree.map(lambda of: np.zeros((0, *of.shape[1:]), of.dtype), info)
    empty = results.Chunk(0, 0.0, empty, metrics, first)
    attrs = {"num_params": flat.size, "compile_seconds": time.perf_counter() - start}
    programs = ((lambda state, program=compiled[length]: program(key, state, data)) for length in lengths)
    return Run(_run(programs, measure, empty, state), empty, attrs)


def _rounds(algorithm: Algorithm, length: int, key: Key, state: RoundState, data: ClientData) -> tuple:
    """`length` rounds; the parameters once more, ravelled: that copy outlives the state, which is donated."""

    def one(state: RoundState, _: None) -> tuple:
        state, info = algorithm.step(key, state, data)
        info = info._replace(bits=collections.OrderedDict(info.bits))._asdict()  # a dict would lose the phases' order
        del info["direction"]
        return state, info

    state, info = jax.lax.scan(one, state, length=length)
    return state, ravel_pytree(state.params)[0], info


def _compile_evaluation(evaluate: Evaluate | None, unravel: Callable, flat: jax.Array) -> tuple:
    """From parameters `[d]` on one device to metrics on the host, and the names and kinds of the metrics."""
    lowered = jax.jit(lambda flat: evaluate(unravel(flat)) if evaluate else {}).lower(flat)
    metrics = lowered.out_info
    if not isinstance(metrics, dict) or any(getattr(metric, "shape", None) != () for metric in metrics.values()):
        raise ValueError(f"evaluate must return a dict of scalars, got {metrics}")
    if taken := [*metrics.keys() & {*results.VARIABLES, *results.DIMENSIONS}]:
        raise ValueError(f"evaluate must name its metrics otherwise than the variables of the result, got {taken}")
    program = lowered.compile()
    return lambda flat: {name: value.item() for name, value in jax.device_get(program(flat)).items()}, metrics


def _run(programs: Iterator[Callable], measure: Callable, empty: results.Chunk, state: RoundState) -> Iterator:
    yield empty._replace(metrics=measure(empty.params))
    rounds = 0
    for program in programs:
        start = time.perf_counter()
        state, flat, info = program(state)
        info = jax.device_get(info)  # waits for the rounds
        seconds = time.perf_counter() - start
        rounds, flat = rounds + info["status"].size, flat.addressable_data(0)
        yield results.Chunk(rounds, seconds, info, measure(flat), flat)

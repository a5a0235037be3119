"""Runs chunk after chunk: compute, evaluate, log, write a checkpoint, stop when asked. Resumes from a checkpoint."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_priv.engine import processes
from fedjax_priv.runs.programs.run_program import CompiledRuns, Inputs
from fedjax_priv.runs.records import result_dataset
from fedjax_priv.runs.records.result_dataset import Chunk
from fedjax_priv.runs.records.run_writer import RunWriter
from fedjax_priv.status import errors_raised

Log = Callable[[dict[str, Any]], Any]
"""Called with `{"round", "seconds", "loss", "megabytes", "failed", metrics...}` after each chunk of rounds.

Also called before the first round, then without "loss".
"""

SIGTERM_STATUS = 128 + 15
"""Exit status that a shell reports for a process that SIGTERM ended."""


class Hooks(NamedTuple):
    """What a run calls between two chunks."""

    writer: RunWriter | None
    log: Log | None
    stop: Callable[[], bool]  # whether SIGTERM has arrived


def chunk_lengths(rounds: int, every: int) -> list[int]:
    """Rounds of each chunk."""
    whole, rest = divmod(rounds, every)
    return [every] * whole + [rest] * (rest > 0)


def run_chunks(
    compiled: CompiledRuns,
    inputs: Inputs,
    lengths: Sequence[int],
    hooks: Hooks,
    *,
    points: Sequence[Mapping[str, Any]] = ({},),
    wave: int = 0,
) -> Iterator[Chunk]:
    """Yields the chunks of a wave's runs: it reads those in the last checkpoint and computes the others.

    Args:
      compiled: the runs.
      inputs: of the runs, on their devices.
      lengths: rounds of each chunk.
      hooks: what to call between two chunks.
      points: for each run, names and values that identify it in the log.
      wave: number of the wave.

    Raises:
      SystemExit: SIGTERM arrived; a checkpoint was written.
    """
    writer = hooks.writer
    finished = writer.finished_chunks(wave) if writer else []
    if len(finished) > len(lengths):
        yield from finished
        return
    unwritten: list[Chunk] = []
    begun = _resume(compiled, inputs, writer, wave, finished)
    for number, chunk, state in _advance(compiled, inputs, lengths, begun):
        if number < len(finished):
            yield chunk
            continue
        unwritten.append(chunk)
        _report(hooks, number, chunk, points, wave)
        last, stop = number == len(lengths), processes.any_process(hooks.stop())
        if writer and (last or stop or (number and chunk.rounds % writer.every == 0)):
            writer.write_checkpoint(wave, _without_params(unwritten, last), [] if last else compiled.save(state))
            unwritten = []
        yield chunk
        if writer and stop and not last:
            _end(writer, f"after {chunk.rounds} of {sum(lengths)} rounds" + (f" of wave {wave}" if wave else ""))


def _resume(
    compiled: CompiledRuns, inputs: Inputs, writer: RunWriter | None, wave: int, finished: Sequence[Chunk]
) -> tuple[list[Chunk], Any]:
    """The finished chunks and the state after them. A new run has one chunk, the evaluation before the first round."""
    saved = writer.saved_state(wave) if writer and finished else None
    if saved is None:
        flat = compiled.evaluation.ravel(inputs.params)
        first = compiled.empty._replace(metrics=compiled.evaluation.measure(flat), params=_on_host(flat))
        return [first], compiled.start(inputs)
    state = compiled.load(inputs, list(saved))
    last = finished[-1]._replace(params=_on_host(compiled.evaluation.ravel(compiled.params(state))))
    return [*finished[:-1], last], state


def _advance(
    compiled: CompiledRuns, inputs: Inputs, lengths: Sequence[int], begun: tuple
) -> Iterator[tuple[int, Chunk, Any]]:
    """Yields each chunk's number, the chunk, and the state after it: finished chunks first, then computed ones."""
    finished, state = begun
    rounds = finished[-1].rounds
    for number, chunk in enumerate(finished):
        yield number, chunk, state
    for number in range(len(finished), len(lengths) + 1):
        length = lengths[number - 1]
        start = time.perf_counter()
        with errors_raised():
            state, flat, info = compiled.advance(inputs, state, length)
        seconds = time.perf_counter() - start
        rounds += length
        yield number, Chunk(rounds, seconds, info, compiled.evaluation.measure(flat), _on_host(flat)), state


def _without_params(chunks: Sequence[Chunk], last: bool) -> list[Chunk]:
    """Drops the parameters, which a checkpoint's state holds too. The last chunk has no state and keeps them."""
    *others, final = chunks
    return [*(chunk._replace(params=()) for chunk in others), final if last else final._replace(params=())]


def _on_host(flat: Any) -> np.ndarray:
    """`[p, d]`, with p = 1 for a single run."""
    return np.atleast_2d(processes.on_host(flat))


def _report(hooks: Hooks, number: int, chunk: Chunk, points: Sequence[Mapping[str, Any]], wave: int) -> None:
    if hooks.writer is None and hooks.log is None:
        return
    for point, record in zip(points, _records(chunk), strict=False):  # runs beyond the points only fill up the wave
        if hooks.writer:
            hooks.writer.append_log({**point, "wave": wave, "chunk": number, **record})
        if hooks.log and processes.is_first():
            metrics = record.pop("metrics")
            hooks.log({**point, **record, **metrics})


def _records(chunk: Chunk) -> list[dict[str, Any]]:
    """The log's entry for each run; loss is a mean over clients that train, megabytes over all places of the cohort."""
    some = chunk.info["status"].shape[1] > 0
    loss = result_dataset.last_loss(chunk.info) if some else ()
    megabytes = result_dataset.megabytes(chunk.info["bits"])
    return [
        {
            "round": chunk.rounds,
            "seconds": round(chunk.seconds, 6),
            **({"loss": float(loss[run])} if some else {}),
            "megabytes": float(megabytes[run]),
            "failed": int(np.count_nonzero(chunk.info["status"][run])),
            "metrics": {name: values[run].item() for name, values in chunk.metrics.items()},
        }
        for run in range(len(chunk.info["status"]))
    ]


def stop_if_asked(hooks: Hooks, where: str) -> None:
    """End the process between two waves if SIGTERM has arrived.

    Raises:
      SystemExit: SIGTERM has arrived; the sweep can be resumed from the last checkpoint.
    """
    if hooks.writer and hooks.stop():
        _end(hooks.writer, where)


def _end(writer: RunWriter, where: str) -> None:
    if processes.is_first():
        print(f"SIGTERM {where}: resume the run in {writer.folder}", file=sys.stderr)
    sys.exit(SIGTERM_STATUS)

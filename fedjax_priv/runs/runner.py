"""From compiled runs to finished chunks: measured, logged, written down, and resumed."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_priv.engine import processes
from fedjax_priv.runs.programs.run_program import Engine, Inputs
from fedjax_priv.runs.records import result_dataset
from fedjax_priv.runs.records.journal import Journal
from fedjax_priv.runs.records.result_dataset import Chunk

Log = Callable[[dict[str, Any]], Any]
"""Called with `{"round", "seconds", "loss", "megabytes", "failed", metrics...}` after each chunk of rounds."""

SIGTERM_STATUS = 128 + 15
"""Exit status of a process that SIGTERM ended, as a shell reports it."""


class Watch(NamedTuple):
    """Who is told of a run while it goes on."""

    journal: Journal | None
    log: Log | None
    stop: Callable[[], bool]  # whether SIGTERM has arrived


def lengths(rounds: int, every: int) -> list[int]:
    """Rounds of each chunk."""
    whole, rest = divmod(rounds, every)
    return [every] * whole + [rest] * (rest > 0)


def follow(
    engine: Engine,
    inputs: Inputs,
    chunks: Sequence[int],
    watch: Watch,
    *,
    points: Sequence[Mapping[str, Any]] = ({},),
    batch: int = 0,
) -> Iterator[Chunk]:
    """Chunks of a batch of runs: those of its last checkpoint, then those that are left.

    Args:
      engine: of the runs.
      inputs: of the runs, on their devices.
      chunks: rounds of each chunk.
      watch: who is told.
      points: names and values that tell the runs apart in the log.
      batch: number of the batch.

    Raises:
      SystemExit: SIGTERM arrived; a checkpoint was written.
    """
    journal = watch.journal
    finished = journal.finished(batch) if journal else []
    if len(finished) > len(chunks):
        yield from finished
        return
    pending: list[Chunk] = []
    for number, chunk, carry in _advance(engine, inputs, chunks, _resume(engine, inputs, journal, batch, finished)):
        if number < len(finished):
            yield chunk
            continue
        pending.append(chunk)
        _report(watch, number, chunk, points, batch)
        last, stop = number == len(chunks), processes.any_process(watch.stop())
        if journal and (last or stop or (number and chunk.rounds % journal.every == 0)):
            journal.commit(batch, _without_params(pending, last), [] if last else engine.save(carry))
            pending = []
        yield chunk
        if journal and stop and not last:
            _end(journal, f"after {chunk.rounds} of {sum(chunks)} rounds" + (f" of batch {batch}" if batch else ""))


def _resume(
    engine: Engine, inputs: Inputs, journal: Journal | None, batch: int, finished: Sequence[Chunk]
) -> tuple[list[Chunk], Any]:
    """The chunks there are, and where the runs stand after them; at the start, the evaluation before the runs."""
    state = journal.state(batch) if journal and finished else None
    if state is None:
        flat = engine.evaluation.ravel(inputs.params)
        first = engine.empty._replace(metrics=engine.evaluation.measure(flat), params=_on_host(flat))
        return [first], engine.start(inputs)
    carry = engine.load(inputs, list(state))
    last = finished[-1]._replace(params=_on_host(engine.evaluation.ravel(engine.params(carry))))
    return [*finished[:-1], last], carry


def _advance(engine: Engine, inputs: Inputs, chunks: Sequence[int], begun: tuple) -> Iterator[tuple[int, Chunk, Any]]:
    """Number of the chunk, the chunk, and where the runs stand after it."""
    finished, carry = begun
    rounds = finished[-1].rounds
    for number, chunk in enumerate(finished):
        yield number, chunk, carry
    for number in range(len(finished), len(chunks) + 1):
        length = chunks[number - 1]
        start = time.perf_counter()
        carry, flat, info = engine.advance(inputs, carry, length)
        seconds = time.perf_counter() - start
        rounds += length
        yield number, Chunk(rounds, seconds, info, engine.evaluation.measure(flat), _on_host(flat)), carry


def _without_params(chunks: Sequence[Chunk], last: bool) -> list[Chunk]:
    """Parameters are in the state, but for those of the end, which has none."""
    *others, final = chunks
    return [*(chunk._replace(params=()) for chunk in others), final if last else final._replace(params=())]


def _on_host(flat: Any) -> np.ndarray:
    """`[p, d]`, also where one run is alone."""
    return np.atleast_2d(processes.on_host(flat))


def _report(watch: Watch, number: int, chunk: Chunk, points: Sequence[Mapping[str, Any]], batch: int) -> None:
    if watch.journal is None and watch.log is None:
        return
    for point, record in zip(points, records(chunk), strict=False):  # more runs only make up the number of a batch
        if watch.journal:
            watch.journal.log({**point, "batch": batch, "chunk": number, **record})
        if watch.log and processes.is_first():
            metrics = record.pop("metrics")
            watch.log({**point, **record, **metrics})


def records(chunk: Chunk) -> list[dict[str, Any]]:
    """What a chunk says of each of its runs; loss and megabytes are means over clients."""
    some = chunk.info["status"].shape[1] > 0
    megabytes = result_dataset.megabytes(chunk.info["bits"])
    return [
        {
            "round": chunk.rounds,
            "seconds": round(chunk.seconds, 6),
            **({"loss": float(np.mean(chunk.info["loss"][run, -1], dtype=np.float64))} if some else {}),
            "megabytes": float(megabytes[run]),
            "failed": int(np.count_nonzero(chunk.info["status"][run])),
            "metrics": {name: values[run].item() for name, values in chunk.metrics.items()},
        }
        for run in range(len(chunk.info["status"]))
    ]


def stop_if_asked(watch: Watch, where: str) -> None:
    """End the process, between two batches, if SIGTERM has arrived.

    Raises:
      SystemExit: it has; the last checkpoint counts.
    """
    if watch.journal and watch.stop():
        _end(watch.journal, where)


def _end(journal: Journal, where: str) -> None:
    if processes.is_first():
        print(f"SIGTERM {where}: resume the run in {journal.folder}", file=sys.stderr)
    sys.exit(SIGTERM_STATUS)

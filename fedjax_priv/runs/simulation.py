"""Runs an algorithm for many rounds, and keeps what every chunk of rounds leaves as soon as it is finished."""

import sys
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, ClientData, Key
from fedjax_priv.data import Pool
from fedjax_priv.engine import processes
from fedjax_priv.engine.block_choice import fastest_block
from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.runs import checks, runner, sigterm
from fedjax_priv.runs import progress as progress_bar
from fedjax_priv.runs.programs import layout
from fedjax_priv.runs.programs.evaluation import Evaluate
from fedjax_priv.runs.programs.pool_program import lower_pool_run
from fedjax_priv.runs.programs.run_program import Inputs, Lowered, lower_runs
from fedjax_priv.runs.records import journal, result_dataset
from fedjax_priv.runs.records.digests import digest
from fedjax_priv.runs.records.keep import Keep
from fedjax_priv.runs.records.result_dataset import Chunk


class SimulationError(RuntimeError):
    """A run broken off by an error, its cause; `dataset` holds the chunks that were finished before."""

    def __init__(self, message: str, dataset: xr.Dataset):
        super().__init__(message)
        self.dataset = dataset


def simulate(
    algorithm: Algorithm,
    key: Key,
    params: PyTree,
    data: ClientData | Pool,
    *,
    rounds: int,
    evaluate: Evaluate | None = None,
    every: int = 1,
    keep: Keep | None = None,
    log: runner.Log | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """Run rounds of an algorithm, the same as calls of `algorithm.step(key, state, data)` in a loop.

    Draws, and secure sums of the same updates, are the same bits; XLA may round local training otherwise in another
    program.

    Args:
      algorithm: what to run. Where it leaves its block open, the fastest one is measured first.
      key: root key, a typed scalar key.
      params: initial parameters, float32 leaves. They are copied, not consumed.
      data: samples of every client, NumPy or JAX arrays: put on the devices once, spread over `algorithm.mesh` where
        its size divides the number of clients; where several processes run, either as `processes.distribute` returns
        them or the same whole arrays on each. Or a `Pool`, whose samples are fetched round by round.
      rounds: how many rounds.
      evaluate: `params -> {name: scalar}`, pure. Jitted, and called before the first round and after each chunk.
      every: rounds of a chunk; where it does not divide `rounds`, the last chunk is shorter.
      keep: folder the run leaves and can be resumed from. SIGTERM then ends the process with exit status 143 after the
        chunk under way and a checkpoint.
      log: called after each chunk with `{"round", "seconds", "loss", "megabytes", "failed"}` and the metrics, as
        `wandb.log` can be; first with the evaluation before the run. Of several processes the first one calls it.
      progress: show a bar on standard error if that is a terminal.

    Returns:
      Dataset with the dimensions `round` (from 1), `client` (place in the cohort), `group`, `phase` of the protocol,
      `evaluation` (rounds done before it, the first is 0) and `parameter`:

      - `loss`, `counted`, `client_id` `[round, client]`, `status` `[round]`, `group_status` `[round, group]`;
      - `up_bytes`, `down_bytes` `[phase, round, client]`, float64;
      - a variable for each metric, and `seconds` that the rounds so far took, `[evaluation]`;
      - `params` `[parameter]`, the final ones, ravelled.

      Attributes: the manifest, `compile_seconds`, `rounds_done`, `failed_rounds`, `failed_because` and `interrupted`,
      1 if the run ended early, as by Ctrl-C: it then has the chunks that were finished, evaluation included. Ctrl-C
      before the first evaluation finds nothing to keep and is a `KeyboardInterrupt`.

    Raises:
      ValueError: an argument is not as above, or the folder holds another run (the difference is named).
      OSError: the folder is not empty and not to be resumed, in use, or cannot be written.
      SimulationError: a round, an evaluation or a checkpoint raised; it holds what was finished.
      SystemExit: SIGTERM arrived.
    """
    _check(key, params, data, rounds, every)
    about = journal.about(
        keep, key=key, rounds=rounds, every=every, num_clients=len(data.count), block=_block(algorithm),
        processes=jax.process_count(),
    )  # fmt: skip
    show = progress and processes.is_first()
    with journal.opened(keep, about, every) as book, progress_bar.bar(rounds, show=show) as update:
        algorithm, inputs = _place(algorithm, key, params, data, book)
        lowered = _lower(algorithm, inputs, data, rounds, every, evaluate)
        _write_down(book, algorithm, lowered, inputs, data)
        if book and book.is_finished():
            return book.result()
        engine = lowered.compile()
        finished: list[Chunk] = []
        attrs = about | {"block": _block(algorithm)} | engine.attrs
        finish = lambda **more: result_dataset.dataset(finished, engine.empty, attrs | more)
        try:
            with sigterm.noticed(book is not None) as stop:
                watch = runner.Watch(book, log, stop)
                _follow(runner.follow(engine, inputs, runner.lengths(rounds, every), watch), finished, update)
            whole = finish(interrupted=0)
            if book:
                book.finish(whole)
            return whole
        except KeyboardInterrupt:
            if not finished:
                raise
            kept = finish(interrupted=1)
            print(f"interrupted: {kept.attrs['rounds_done']} of {rounds} rounds are kept", file=sys.stderr)
            return kept
        except Exception as error:
            kept = finish(interrupted=1)
            raise SimulationError(f"after {kept.attrs['rounds_done']} of {rounds} rounds: {error}", kept) from error


def _check(key: Key, params: PyTree, data: ClientData | Pool, rounds: int, every: int) -> None:
    _validate.integer(rounds=rounds, every=every)
    checks.check_key(key)
    checks.check_params(params)
    if not isinstance(data, Pool):
        checks.check_data(data)


def _block(algorithm: Algorithm) -> int | str:
    return "auto" if algorithm.in_blocks else algorithm.block or "not known"


def _place(
    algorithm: Algorithm, key: Key, params: PyTree, data: ClientData | Pool, book: journal.Journal | None
) -> tuple[Algorithm, Inputs]:
    """Puts the arguments on the devices; then the algorithm has its block, if that was left open."""
    where = layout.alone(_mesh(algorithm), len(data.count))
    placed = () if isinstance(data, Pool) else processes.place(data, where.data)
    params = jax.tree.map(lambda p: jnp.asarray(p, p.dtype), params)  # a weak type would make another program
    inputs = Inputs({}, processes.place(key, where.whole), processes.place(params, where.whole), placed)
    if algorithm.in_blocks is None:
        return algorithm, inputs
    block = book.facts.get("block") if book else None
    if block is not None:
        return algorithm.in_blocks(block), inputs
    if isinstance(data, Pool) or jax.process_count() > 1:
        raise ValueError("block must be a number for a Pool and in a run of several processes, got 'auto'")
    return fastest_block(algorithm, inputs.key, inputs.params, inputs.data), inputs


def _mesh(algorithm: Algorithm) -> jax.sharding.Mesh:
    return algorithm.mesh or clients_mesh([*jnp.zeros(()).devices()])  # or the default device


def _lower(
    algorithm: Algorithm, inputs: Inputs, data: ClientData | Pool, rounds: int, every: int, evaluate: Evaluate | None
) -> Lowered:
    mesh = _mesh(algorithm)
    if isinstance(data, Pool):
        return lower_pool_run(algorithm, inputs, data, mesh=mesh, rounds=rounds, evaluate=evaluate)
    where, lengths = layout.alone(mesh, len(data.count)), runner.lengths(rounds, every)
    return lower_runs(lambda: algorithm, inputs, layout=where, lengths=lengths, evaluate=evaluate)


def _write_down(
    book: journal.Journal | None, algorithm: Algorithm, lowered: Lowered, inputs: Inputs, data: ClientData | Pool
) -> None:
    """What the run depends on; the samples of a pool are the caller's to keep as they were."""
    if book is not None:
        samples = digest(data.count if isinstance(data, Pool) else inputs.data)
        facts = {"data": samples, "params": digest(inputs.params), "block": algorithm.block}
        for name, value in (facts | lowered.digests).items():
            book.fact(name, value)


def _follow(run: Iterator[Chunk], finished: list[Chunk], update: progress_bar.Update) -> None:
    """Keep what every chunk of a run leaves, and show where it stands."""
    seconds, megabytes, failed = 0.0, 0.0, 0
    for chunk in run:
        result_dataset.add(chunk, finished)
        seconds += chunk.seconds
        megabytes += result_dataset.megabytes(chunk.info["bits"]).item()
        failed += int(np.count_nonzero(chunk.info["status"]))
        metrics = {name: values.item() for name, values in chunk.metrics.items()}
        update(chunk.rounds, seconds=seconds, metrics=metrics, megabytes=megabytes, failed=failed)

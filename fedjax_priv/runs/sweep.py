"""Many runs as few programs: numeric axes and seeds are one `vmap`, other axes a loop over compiled programs."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping

import jax
import xarray as xr
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, ClientData, Key
from fedjax_priv.runs import checks, runner, sigterm
from fedjax_priv.runs import progress as progress_bar
from fedjax_priv.runs.grid import Axis, grid, join
from fedjax_priv.runs.programs.evaluation import Evaluate
from fedjax_priv.runs.records import journal, result_dataset
from fedjax_priv.runs.records.keep import Keep
from fedjax_priv.runs.simulation import SimulationError
from fedjax_priv.runs.waves import Batch, Batches, Over


def sweep(
    make: Callable[..., Algorithm],
    axes: Mapping[str, Axis],
    key: Key,
    params: PyTree | Callable[[Key], PyTree],
    data: ClientData | Callable[..., ClientData],
    *,
    rounds: int,
    evaluate: Evaluate | None = None,
    every: int = 1,
    static: Iterable[str] = (),
    at_once: int | None = None,
    memory: float | None = None,
    over: Over = "auto",
    keep: Keep | None = None,
    log: runner.Log | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """Run an algorithm at every point of a grid.

    The run at a point is `simulate(make(**point), key, params, data, ...)`. The axis "seed", if there is one, is no
    argument of `make`: the run has the key `fold_in(key, seed)`. A batch draws the same cohorts, dropouts, batches and
    masks, bit for bit, and its secure sums are exact; floating point may be rounded otherwise there, and in what a
    factory computes of a traced value: by about 1e-6 of a parameter.

    Args:
      make: `make(**point) -> Algorithm`. Called for every point with its values, which are checked thus, and inside
        jit, where the values of a numeric axis are traced float32 scalars.
      axes: values by name. A numeric axis, of numbers of which at least one is a float, and "seed" go into one
        program; any other is static, since integers and names change shapes or control flow. Values without a short
        text, such as parts of an algorithm, come in a dict with a name for each.
      key: root key, a typed scalar key.
      params: initial parameters, float32 leaves, or a function `key -> params`, as a model's `init`; it is given
        `named(key of the run, "params")`.
      data: samples of every client, or a function of axes named in its signature, which are static then.
      rounds: of each run.
      evaluate: as of `simulate`.
      every: rounds of a chunk.
      static: numeric axes that change shapes or control flow.
      at_once: runs in a batch. If not given, as many as `memory` holds.
      memory: bytes on each device that a batch may take; half of what is free if not given.
      over: what the devices divide: "runs" (each batches runs of its own), or the "clients" of all runs; "auto" is runs
        where there are as many as devices.
      keep: folder the sweep leaves and can be resumed from, in the middle of a batch as well.
      log: as of `simulate`, for each run of a batch, with the names of its point.
      progress: show a bar on standard error if that is a terminal.

    Returns:
      The dataset of `simulate` with the axes as first dimensions, and `failed_rounds` by point. `seconds` are an even
      share of those of the batch. Where shapes differ between points, what is missing is NaN. Attributes: the manifest,
      `programs` compiled, `compile_seconds` for all of them, `runs`, `batches`, `runs_done`, and `interrupted`, 1 if
      the sweep ended early: points whose batch was not finished are NaN.

    Raises:
      ValueError: an argument is not as above, or the folder holds another sweep (the difference is named).
      OSError: the folder is not empty and not to be resumed, in use, or cannot be written.
      SimulationError: a round, an evaluation or a checkpoint raised after some runs were finished; it holds those.
      SystemExit: SIGTERM arrived.
    """
    _validate.integer(rounds=rounds, every=every)
    checks.check_key(key)
    if jax.process_count() > 1:
        raise ValueError("sweep must run in one process; give each process its own part of the axes")
    of = grid(axes)
    batches = Batches(
        make, of, key, params, data, lengths=runner.lengths(rounds, every), evaluate=evaluate, static=frozenset(static),
        at_once=at_once, memory=memory, over=over,
    )  # fmt: skip
    about = journal.about(
        keep, key=key, rounds=rounds, every=every, runs=len(of.points), over=over, static=json.dumps(sorted(static)),
        axes=json.dumps(dict(zip(of.names, of.labels, strict=True))),
    )  # fmt: skip
    with journal.opened(keep, about, every) as book, progress_bar.bar(rounds * len(of.points), show=progress) as update:
        if book and book.is_finished():
            batches.check(book)
            return book.result()
        done: dict[tuple[int, ...], xr.Dataset] = {}
        finish = lambda **more: join(done, of, about | batches.attrs | {"runs_done": len(done)} | more)
        try:
            with sigterm.noticed(book is not None) as stop:
                for batch in batches.run(runner.Watch(book, log, stop)):
                    done |= _runs(batch)
                    update(rounds * len(done), **_shown(batch))
            whole = finish(interrupted=0)
            if book:
                book.finish(whole)
            return whole
        except KeyboardInterrupt:
            if not done:
                raise
            print(f"interrupted: {len(done)} of {len(of.points)} runs are kept", file=sys.stderr)
            return finish(interrupted=1)
        except Exception as error:
            if not done:
                raise
            message = f"after {len(done)} of {len(of.points)} runs: {error}"
            raise SimulationError(message, finish(interrupted=1)) from error


def _runs(batch: Batch) -> dict[tuple[int, ...], xr.Dataset]:
    """Dataset of each run of a finished batch."""
    runs = {}
    for number, point in enumerate(batch.points):
        run = result_dataset.dataset(batch.chunks, batch.chunks[0], {}, run=number)
        share = run.seconds / len(batch.points)
        share.attrs = run.seconds.attrs | {"long_name": "even share of the time that its batch took"}
        failed = xr.DataArray(run.attrs["failed_rounds"], attrs={"long_name": "rounds that failed"})
        runs[point] = run.assign(seconds=share, failed_rounds=failed).drop_attrs(deep=False)
    return runs


def _shown(batch: Batch) -> dict:
    last = batch.chunks[-1]
    return {
        "seconds": sum(chunk.seconds for chunk in batch.chunks) / len(batch.points),
        "metrics": {name: values.mean().item() for name, values in last.metrics.items()},
        "megabytes": sum(result_dataset.megabytes(chunk.info["bits"]).mean().item() for chunk in batch.chunks),
        "failed": sum(int((chunk.info["status"] != 0).sum()) for chunk in batch.chunks),
    }

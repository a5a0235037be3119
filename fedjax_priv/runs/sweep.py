"""`sweep`: a run at every point of a grid. Numeric axes and seeds share a `vmap`; other axes loop over programs."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import xarray as xr
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, ClientData, Key
from fedjax_priv.runs import checks
from fedjax_priv.runs import progress as progress_bar
from fedjax_priv.runs.chunk_loop import Hooks, Log, chunk_lengths
from fedjax_priv.runs.ending import run_to_the_end
from fedjax_priv.runs.failures import warn_if_all_failed
from fedjax_priv.runs.grid import Axis, Grid, Point, checked_grid, join
from fedjax_priv.runs.programs.evaluation import Evaluate
from fedjax_priv.runs.records import result_dataset, run_writer
from fedjax_priv.runs.records.manifest import manifest_with
from fedjax_priv.runs.records.run_writer import Keep
from fedjax_priv.runs.waves import Over, Wave, Waves


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
    log: Log | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """Runs an algorithm at every point of a grid.

    The run at a point is `simulate(make(**point), key, params, data, ...)`. An axis "seed" is not given to `make`: its
    runs have the key `fold_in(key, seed)`. Runs are computed side by side, in waves that fit the memory. Cohorts,
    dropouts, batches and masks have the same bits as in single runs, and secure sums are exact. Rounding may differ,
    also in what a factory computes from a traced value: by about 1e-6 of a parameter.

    Args:
      make: `make(**point) -> Algorithm`. Called for every point with its values, so that they are checked, and inside
        jit, where the values of a numeric axis are traced float32 scalars. If `make` branches on such a value, or
        computes with it in NumPy, name that axis in `static`.
      axes: values by name. All values of a numeric axis (only numbers, at least one of them a float) and of "seed"
        share a program. Any other axis is static, since integers and names may change shapes or control flow. Values
        without a short text, such as parts of an algorithm, come in a dict that names them.
      key: root key, a typed scalar key.
      params: initial parameters, float32 leaves, or a function `key -> params`, such as a model's `init`; it is given
        `named(key of the run, "params")`.
      data: samples of every client, or a function of axes named in its signature; those axes are static.
      rounds: of each run.
      evaluate: as in `simulate`.
      every: rounds of a chunk.
      static: numeric axes that change shapes or control flow.
      at_once: at most so many runs in a wave, but at least one per device if runs are divided. If not given, as many
        as `memory` holds.
      memory: bytes that a wave may take on each device, not with `at_once`; by default half of the free memory.
      over: what is divided among the devices: "runs" (each device computes whole runs) or the "clients" of all runs.
        "auto" divides runs if every device then gets at least one, else clients.
      keep: folder to write the sweep to; the sweep can be resumed from it, also in the middle of a wave.
      log: as in `simulate`, for each run of a wave, with the names of its point.
      progress: show a bar on standard error if that is a terminal.

    Returns:
      The dataset of `simulate` with the axes as first dimensions, and `failed_rounds` by point. `seconds` is the time
      of the wave, divided by its runs. If shapes differ between points, missing values are NaN. Attributes: the
      manifest, `caveats`, the number of `programs` compiled, `compile_seconds` for all of them, `runs`, `waves`,
      `runs_done`, and `interrupted`, which is 1 if Ctrl-C ended the sweep early: points of unfinished waves are then
      NaN. If every round of a run failed, a warning says why.

    Raises:
      ValueError: an argument is not as above, or the folder holds another sweep (the difference is named).
      OSError: the folder cannot be written, is in use, or is not empty and `keep.resume` is not set.
      SimulationError: a round, an evaluation or a checkpoint raised an error after some runs had finished; it holds
        these runs.
      SystemExit: SIGTERM arrived.
    """
    rounds, every = checks.checked_rounds(rounds, every)
    _check(key)
    checks.check_shown(evaluate, log, progress)
    if isinstance(static, str) or not isinstance(static, Iterable):
        raise ValueError(f"static must be names of axes in a list, got {static!r}")
    static = frozenset(static)
    if callable(params):
        _validate.takes("key", params=params)
    grid = checked_grid(axes)
    checks.check_keep(keep, dict(zip(grid.names, grid.labels, strict=True)))
    waves = Waves(
        make, grid, key, params, data, lengths=chunk_lengths(rounds, every), evaluate=evaluate,
        static=static, at_once=at_once, memory=memory, over=over,
    )  # fmt: skip
    waves.check_rounds()
    about = manifest_with(
        keep.config if keep else {}, key=key, rounds=rounds, every=every, runs=len(grid.points), over=over,
        static=json.dumps(sorted(static)), axes=json.dumps(dict(zip(grid.names, grid.labels, strict=True))),
    )  # fmt: skip
    result = _run(waves, grid, about, rounds, every, keep, log, progress)
    warn_if_all_failed(result)
    return result


def _run(
    waves: Waves, grid: Grid, about: dict[str, Any], rounds: int, every: int, keep: Keep | None, log: Log | None,
    progress: bool,
) -> xr.Dataset:  # fmt: skip
    total = len(grid.points)
    with run_writer.opened(keep, about, every) as writer, progress_bar.bar(rounds * total, show=progress) as update:
        if writer and writer.is_finished():
            waves.check(writer)
            return writer.read_result()
        done: dict[Point, xr.Dataset] = {}
        return run_to_the_end(
            lambda hooks: _run_waves(waves, hooks, done, lambda wave: update(rounds * len(done), **_shown(wave))),
            done,
            result=lambda **ended: join(done, grid, about | waves.attrs | {"runs_done": len(done)} | ended),
            so_far=lambda: f"{len(done)} of {total} runs", writer=writer, log=log,
        )  # fmt: skip


def _check(key: Key) -> None:
    checks.check_jit()
    checks.check_key(key)
    if jax.process_count() > 1:
        raise ValueError("sweep must run in one process; give each process its own part of the axes")


def _run_waves(waves: Waves, hooks: Hooks, done: dict[Point, xr.Dataset], show: Callable[[Wave], None]) -> None:
    for wave in waves.run(hooks):
        done.update(_runs(wave))
        show(wave)


def _runs(wave: Wave) -> dict[Point, xr.Dataset]:
    """The dataset of each run of a finished wave."""
    runs = {}
    for number, point in enumerate(wave.points):
        run = result_dataset.dataset(wave.chunks, wave.chunks[0], {}, stated=wave.stated[number], run=number)
        seconds = run.seconds / len(wave.points)
        seconds.attrs = run.seconds.attrs | {"long_name": "time of the wave, divided by its runs"}
        failed = xr.DataArray(run.attrs["failed_rounds"], attrs={"long_name": "rounds that failed"})
        runs[point] = run.assign(seconds=seconds, failed_rounds=failed).drop_attrs(deep=False)
    return runs


def _shown(wave: Wave) -> dict:
    last = wave.chunks[-1]
    return {
        "seconds": sum(chunk.seconds for chunk in wave.chunks) / len(wave.points),
        "metrics": {name: values.mean().item() for name, values in last.metrics.items()},
        "megabytes": sum(result_dataset.megabytes(chunk.info["bits"]).mean().item() for chunk in wave.chunks),
        "failed": sum(int((chunk.info["status"] != 0).sum()) for chunk in wave.chunks),
    }

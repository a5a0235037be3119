"""What the commands `run`, `sweep` and `list` do once their options are read."""

import datetime
import pathlib
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import xarray as xr

from fedjax_priv import _validate
from fedjax_priv.cli.axes import parse_axes
from fedjax_priv.cli.byzantine import check_attackers
from fedjax_priv.cli.experiment import experiment, groups
from fedjax_priv.cli.launch import Launch, join
from fedjax_priv.cli.options import options_of, pick
from fedjax_priv.cli.report import Row, rows_of, show_entries, show_runs
from fedjax_priv.engine import processes
from fedjax_priv.keys import named
from fedjax_priv.runs.records import run_folder
from fedjax_priv.runs.records.keep import Keep
from fedjax_priv.runs.simulation import SimulationError, simulate
from fedjax_priv.runs.sweep import sweep as sweep_runs


class Control(NamedTuple):
    """How a run goes, beside what is run.

    Args:
      rounds: how many.
      every: rounds between two evaluations.
      seed: of the initial model and every draw; an axis `seed` makes further keys from it.
      folder: of the run; results/<system>-<date and time> if not given.
      resume: go on with the run in the folder where it stopped, or start it where there is none.
      checkpoint_every: rounds between two checkpoints; after every evaluation if not given.
      json: file for the printed table.
    """

    rounds: int = 100
    every: int = 10
    seed: int = 0
    folder: pathlib.Path | None = None
    resume: bool = False
    checkpoint_every: int | None = None
    json: pathlib.Path | None = None


class Outcome(NamedTuple):
    """What a command printed, and how it ended."""

    rows: Sequence[Any]  # NamedTuples
    interrupted: bool
    failed: bool = False  # what was checked does not hold


def run(system: str, values: Mapping[str, Any]) -> Outcome:
    """Run a system and print what it came to.

    Args:
      system: a name of `systems.__all__`.
      values: of the options of `experiment.groups(system)`, `Control` and `Launch`.

    Raises:
      ValueError: a value is out of its range, or does not go with others.
      OSError: the data are not there, or the folder cannot be written.
      SystemExit: SIGTERM; the run can be resumed.
    """
    join(Launch(**pick(options_of(Launch), values)))
    control = _control(values)
    check_attackers(values)
    keep = _keep(system, control, values, without={"num_clients", "block"})  # which `simulate` writes down itself
    chosen, key = experiment(system, values), jax.random.key(control.seed)
    params = chosen.model.init(named(key, "params"))
    with _resumable(keep):
        result = simulate(
            chosen.make(), key, params, chosen.data,
            rounds=control.rounds, evaluate=chosen.evaluate, every=control.every, keep=keep,
        )  # fmt: skip
    rows = rows_of(system, result, keep.folder)
    return _outcome(f"{system}, {rows[0].rounds} rounds", rows, result, keep)


def sweep(system: str, values: Mapping[str, Any]) -> Outcome:
    """Run a system at every point of a grid and print what the runs came to.

    Args:
      system: a name of `systems.__all__`.
      values: of the options of `experiment.groups(system)` and `Control`; `axis`, the axes as they were written; and
        `static`, names of those whose values are compiled one by one.

    Raises:
      ValueError, OSError, SystemExit: as `run`.
    """
    control = _control(values)
    axes = _axes(system, values["axis"])
    check_attackers(values, axes)
    keep = _keep(system, control, values, without={"axis", "static", *axes} - {"seed"})
    chosen, key = experiment(system, values), jax.random.key(control.seed)
    with _resumable(keep):
        result = sweep_runs(
            chosen.make, axes, key, chosen.model.init, chosen.data,
            rounds=control.rounds, evaluate=chosen.evaluate, every=control.every, keep=keep,
            static=[name.replace("-", "_") for name in values["static"]],
        )  # fmt: skip
    rows = rows_of(system, result, keep.folder, [*axes])
    return _outcome(f"{system}, {len(rows)} runs of {control.rounds} rounds", rows, result, keep)


def list_runs(root: pathlib.Path) -> list[run_folder.Entry]:
    """Print the runs below a folder.

    Raises:
      ValueError: it is no folder.
    """
    entries = run_folder.runs(root)
    show_entries(root, entries)
    return entries


def _control(values: Mapping[str, Any]) -> Control:
    control = Control(**pick(options_of(Control), values))
    _validate.seed(seed=control.seed)
    _validate.integer(rounds=control.rounds, every=control.every)
    if control.checkpoint_every is not None:
        _validate.integer(checkpoint_every=control.checkpoint_every)
        _validate.divides({"every": control.every}, checkpoint_every=control.checkpoint_every)
    return control


def _axes(system: str, texts: Sequence[str]) -> dict[str, list[Any]]:
    """Axes over the options that leave the data and the model as they are, and the seed."""
    parts, control = groups(system), options_of(Control)
    fixed = {*parts["data"], *parts["model"], *control} - {"seed"}
    free = {name: option for options in parts.values() for name, option in options.items() if name not in fixed}
    return parse_axes(texts, {**free, "seed": control["seed"]}, fixed)


def _keep(system: str, control: Control, values: Mapping[str, Any], *, without: Set[str]) -> Keep:
    """Where the run is kept, under the options that define it."""
    if control.resume and control.folder is None:
        raise ValueError("folder must be given with resume")
    now = datetime.datetime.now(datetime.UTC)
    name = pathlib.Path("results") / f"{system}-{now:%Y%m%d-%H%M%S}"
    folder = control.folder or processes.on_first(lambda: name)
    elsewhere = {*options_of(Control), *options_of(Launch), "data_dir"} - {"seed"} | without
    config = {name: _plain(value) for name, value in values.items() if name not in elsewhere and value is not None}
    return Keep(folder, control.checkpoint_every, control.resume, {"system": system, **config})


def _plain(value: Any) -> str | int | float:
    return value if isinstance(value, str | int | float) else " ".join(map(str, value))


@contextmanager
def _resumable(keep: Keep) -> Iterator[None]:
    """A run that is broken off says how it is resumed."""
    try:
        yield
    except (SystemExit, KeyboardInterrupt, SimulationError):
        _say_how_to_resume(keep)
        raise


def _outcome(title: str, rows: list[Row], result: xr.Dataset, keep: Keep) -> Outcome:
    interrupted = bool(result.attrs["interrupted"])
    if processes.is_first():
        show_runs(title, rows)
    if interrupted:
        _say_how_to_resume(keep)
    return Outcome(rows, interrupted)


def _say_how_to_resume(keep: Keep) -> None:
    if not processes.is_first():
        return
    written = {argument.partition("=")[0] for argument in sys.argv}
    arguments = sys.argv[1:]
    arguments += [] if "--folder" in written else ["--folder", str(keep.folder)]
    arguments += [] if "--resume" in written else ["--resume"]
    print(f"resume with: {shlex.join(['fedjax-priv', *arguments])}", file=sys.stderr)

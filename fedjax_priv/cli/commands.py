"""The commands `run`, `sweep` and `list`, once their options are read."""

import datetime
import pathlib
import shlex
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import xarray as xr

from fedjax_priv import _validate
from fedjax_priv.cli import budget
from fedjax_priv.cli.axes import parse_axes
from fedjax_priv.cli.byzantine import check_attackers
from fedjax_priv.cli.experiment import experiment, options_by_part
from fedjax_priv.cli.launch import Launch, join
from fedjax_priv.cli.options import REQUIRED, options_of, pick
from fedjax_priv.cli.program_cache import folder_of_whole_programs
from fedjax_priv.cli.result_tables import Row, all_failed, run_rows, show_runs, show_summaries
from fedjax_priv.cli.run_options import RunOptions
from fedjax_priv.engine import processes
from fedjax_priv.keys import named
from fedjax_priv.ledger import show as show_ledger
from fedjax_priv.runs import checks
from fedjax_priv.runs.ending import SimulationError
from fedjax_priv.runs.failures import EveryRoundFailed
from fedjax_priv.runs.programs.kept_programs import KeptPrograms
from fedjax_priv.runs.records.run_list import RunSummary, summaries
from fedjax_priv.runs.records.run_writer import Keep
from fedjax_priv.runs.simulation import simulate_kept
from fedjax_priv.runs.sweep import sweep as sweep_runs


class Outcome(NamedTuple):
    """What a command printed, and how it ended."""

    rows: Sequence[Any]  # NamedTuples
    interrupted: bool
    failed: bool = False  # what was checked does not hold, or a run has no round that did not fail


def run(system: str, values: Mapping[str, Any]) -> Outcome:
    """Run a system and print its results.

    Args:
      system: a name of `systems.__all__`.
      values: of the options of `experiment.options_by_part(system)`, `RunOptions` and `Launch`.

    Raises:
      ValueError: a value is out of its range, or does not go with others.
      OSError: the data are not there, or the folder cannot be written.
      SystemExit: SIGTERM; the run can be resumed.
    """
    join(Launch(**pick(options_of(Launch), values)))
    options = _run_options(values)
    allowed = budget.BudgetOptions(**pick(options_of(budget.BudgetOptions), values))
    check_attackers(values)
    budget.check(allowed)
    chosen, key = experiment(system, values), jax.random.key(options.seed)
    params = chosen.model.init(named(key, "params"))
    noise, rounds = budget.within(allowed, chosen, values, key, params, options.rounds)
    for option, much in noise.items() if processes.is_first() else ():
        print(f"fedjax-priv: {option} {much:g} is chosen for eps {allowed.target_epsilon:g}", file=sys.stderr)
    values, algorithm = {**values, **noise}, chosen.make(**noise)
    keep = _keep(system, options, values, without={"num_clients", "block"})  # which `simulate` writes down itself
    with _resumable(keep):
        result = simulate_kept(
            algorithm, key, params, chosen.data,
            rounds=rounds, evaluate=chosen.evaluate, every=options.every, keep=keep,
            programs=_programs(system, values),
        )  # fmt: skip
    result = budget.spent(result, algorithm, chosen.data, allowed.delta, keep)
    rows = run_rows(system, result, keep.folder)
    return _outcome(f"{system}, {rows[0].rounds} rounds", rows, result, keep)


def sweep(system: str, values: Mapping[str, Any]) -> Outcome:
    """Run a system at every point of a grid and print the results.

    Args:
      system: a name of `systems.__all__`.
      values: of the options of `experiment.options_by_part(system)` and `RunOptions`, and `delta`; `axis`, the axes as
        they were written; and `static`, names of those whose values are compiled one by one.

    Raises:
      ValueError, OSError, SystemExit: as `run`.
    """
    options = _run_options(values)
    axes = _axes(system, values["axis"])
    _check_given_once(system, values, axes)
    budget.check(budget.BudgetOptions(values["delta"]))
    check_attackers(values, axes)
    keep = _keep(system, options, values, without={"axis", "static", *axes} - {"seed"})
    chosen, key = experiment(system, values), jax.random.key(options.seed)
    with _resumable(keep), _hint_of_static(axes), warnings.catch_warnings():
        warnings.simplefilter("ignore", EveryRoundFailed)  # said below the table
        result = sweep_runs(
            chosen.make, axes, key, chosen.model.init, chosen.data,
            rounds=options.rounds, evaluate=chosen.evaluate, every=options.every, keep=keep,
            static=[name.replace("-", "_") for name in values["static"]],
        )  # fmt: skip
    result = budget.spent_at_points(result, axes, chosen, values["delta"], keep)
    rows = run_rows(system, result, keep.folder, [*axes])
    return _outcome(f"{system}, {len(rows)} runs of {options.rounds} rounds", rows, result, keep)


def list_runs(root: pathlib.Path) -> list[RunSummary]:
    """Print the runs below a folder.

    Raises:
      ValueError: it is no folder.
    """
    found = summaries(root)
    show_summaries(root, found)
    return found


def ledger_of(folder: pathlib.Path) -> list[budget.LedgerRow]:
    """Print the ledger of a finished run.

    Raises:
      ValueError: the folder is not that of a run, or has no ledger, or one that is broken.
    """
    rows = budget.read(folder)
    show_ledger([budget.entry_of(row) for row in rows], f"privacy ledger of {folder}")
    return rows


def _run_options(values: Mapping[str, Any]) -> RunOptions:
    options = RunOptions(**pick(options_of(RunOptions), values))
    _validate.seed(seed=options.seed)
    checks.checked_rounds(options.rounds, options.every)
    if options.checkpoint_every is not None:
        _validate.integer(checkpoint_every=options.checkpoint_every)
        _validate.divides({"every": options.every}, checkpoint_every=options.checkpoint_every)
    return options


def _axes(system: str, texts: Sequence[str]) -> dict[str, list[Any]]:
    """Axes over the seed and the options that leave data, model and rounds as they are."""
    parts, common = options_by_part(system), options_of(RunOptions)
    fixed = {*parts["data"], *parts["model"], *common} - {"seed"}
    free = {name: option for options in parts.values() for name, option in options.items() if name not in fixed}
    return parse_axes(texts, {**free, "seed": common["seed"]}, fixed)


def _check_given_once(system: str, values: Mapping[str, Any], axes: Mapping[str, Any]) -> None:
    """Refuse a value of an option that an axis replaces; the two seeds are combined."""
    options = {name: option for part in options_by_part(system).values() for name, option in part.items()}
    for name in axes:
        if name in options and options[name].default not in (REQUIRED, values[name]):
            raise ValueError(f"{name} must not be given with an axis of that name, got {values[name]}")


def _programs(system: str, values: Mapping[str, Any]) -> KeptPrograms | None:
    """By the options that determine the algorithm; not by where samples are, whose digest is in a program's name."""
    folder = folder_of_whole_programs()
    if folder is None:
        return None
    names = {name for part in options_by_part(system).values() for name in part} - {"data_dir"}
    return KeptPrograms(folder, {"system": system} | {name: values[name] for name in sorted(names & values.keys())})


def _keep(system: str, options: RunOptions, values: Mapping[str, Any], *, without: Set[str]) -> Keep:
    """The folder of the run, and the options that define it for the manifest."""
    if options.resume and options.folder is None:
        raise ValueError("folder must be given with resume")
    now = datetime.datetime.now(datetime.UTC)
    name = pathlib.Path("results") / f"{system}-{now:%Y%m%d-%H%M%S-%f}"[:-3]  # milliseconds: several may begin at once
    folder = options.folder or processes.on_first(lambda: name)
    elsewhere = {*options_of(RunOptions), *options_of(Launch), "data_dir", "delta"} - {"seed"} | without
    config = {name: _plain(value) for name, value in values.items() if name not in elsewhere and value is not None}
    return Keep(folder, options.checkpoint_every, options.resume, {"system": system, **config})


def _plain(value: Any) -> str | int | float:
    return value if isinstance(value, str | int | float) else " ".join(map(str, value))


@contextmanager
def _resumable(keep: Keep) -> Iterator[None]:
    """Print how to resume a run that ends early."""
    try:
        yield
    except (SystemExit, KeyboardInterrupt, SimulationError):
        _say_how_to_resume(keep)
        raise


@contextmanager
def _hint_of_static(axes: Collection[str]) -> Iterator[None]:
    """Name the option for an axis whose values a program has to know, or for each that may be the one."""
    try:
        yield
    except ValueError as error:
        said = str(error)
        first, traced = said.partition(" ")[0], said.removesuffix(" as traced values").rpartition(", got ")[2]
        if first == "axes":
            names = [name for name in traced.split(", ") if name in axes]
        else:
            names = [first] if first in axes and "racer" in said else []  # a tracer, or what JAX prints of one
        if not names:
            raise
        raise ValueError(f"{said}; add {' or '.join(f'--static {_dashed(name)}' for name in names)}") from error


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _outcome(title: str, rows: list[Row], result: xr.Dataset, keep: Keep) -> Outcome:
    interrupted = bool(result.attrs["interrupted"])
    if processes.is_first():
        show_runs(title, rows)
    if interrupted:
        _say_how_to_resume(keep)
    if (why := all_failed(rows)) and processes.is_first():
        print(f"fedjax-priv: {why}", file=sys.stderr)
    return Outcome(rows, interrupted, failed=bool(why))


def _say_how_to_resume(keep: Keep) -> None:
    if not processes.is_first():
        return
    written = {argument.partition("=")[0] for argument in sys.argv}
    arguments = sys.argv[1:]
    arguments += [] if "--folder" in written else ["--folder", str(keep.folder)]
    arguments += [] if "--resume" in written else ["--resume"]
    print(f"resume with: {shlex.join(['fedjax-priv', *arguments])}", file=sys.stderr)

"""The command `fedjax-priv`."""

import functools
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, Union

import jax
import tyro

from fedjax_priv import systems
from fedjax_priv.cli import audit_command, commands
from fedjax_priv.cli.axes import HOW
from fedjax_priv.cli.experiment import options_by_part
from fedjax_priv.cli.launch import Launch
from fedjax_priv.cli.options import Option, Options, form, options_of, values_of
from fedjax_priv.cli.reproduce import scripts
from fedjax_priv.engine import processes
from fedjax_priv.runs.ending import SimulationError
from fedjax_priv.runs.records import atomic_file

_INTERRUPTED = 128 + 2  # as a shell reports it
_WRONG = 2
_FAILED = 1
_RUN = {"run": options_of(commands.RunOptions), "launch": options_of(Launch)}
_AXIS = f"an axis of the grid, as {HOW}: seed, or any option but those of data, model and run."
_STATIC = "an axis whose values must be compiled one by one, for example alpha of sparse_secagg."
_AUDIT = "Test by experiment what a system claims about privacy; exit status 1 if a bound contradicts a claim."
_NAMES = tyro.conf.UseAppendAction[tuple[str, ...]]
_SWEEP = {"axes": {"axis": Option(_NAMES, (), _AXIS), "static": Option(_NAMES, (), _STATIC)}, "run": _RUN["run"]}
_Positional = tyro.conf.Positional[str | None]
_Flag = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]
_Json = Annotated[pathlib.Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]


def _demo(
    out: pathlib.Path = pathlib.Path("results/demo"),
    rounds: int = 40,
    seed: int = 0,
    json: _Json = None,
) -> None:
    """Train 100 clients on digits under the systems of four papers, honest and attacked; print a table, write a figure.

    Args:
      out: folder for the figure and the table.
      rounds: rounds of each system.
      seed: seed of the split, the initial model and every random draw.
      json: new file for the printed table, as JSON.
    """
    from fedjax_priv.cli.demo.demo_command import demo

    rows = _save(lambda: demo(out, rounds, seed), json)
    if failed := [row for row in rows if row.failed_rounds == rounds]:
        why = "; ".join(f"{row.system}, {row.status}" for row in failed)
        print(f"fedjax-priv: every round of {len(failed)} of {len(rows)} systems failed: {why}", file=sys.stderr)
        sys.exit(_FAILED)


def _bench(repeats: int = 7, json: _Json = None) -> None:
    """Time rounds of FedAvg, and compare with the rate of matrix products measured in the same run.

    Args:
      repeats: rounds to time.
      json: new file for the printed table, as JSON.
    """
    from fedjax_priv.cli.bench import bench

    _save(lambda: bench(repeats), json)


def _reproduce(
    paper: Annotated[_Positional, tyro.conf.arg(metavar="[PAPER]", help_behavior_hint="")] = None,
    figure: Annotated[_Positional, tyro.conf.arg(metavar="[FIGURE]", help_behavior_hint="")] = None,
    all: _Flag = False,
    scale: Literal["quick", "cpu", "short", "paper"] = "quick",
    out: pathlib.Path = pathlib.Path("results"),
    processes: int = 2,
    resume: _Flag = False,
    json: _Json = None,
) -> None:
    """Make figures and tables of the papers again, and check what the papers claim.

    Args:
      paper: a folder of experiments/, such as fedrep; needed unless you give --all.
      figure: a script in that folder, without .py; by default all of them.
      all: make every figure of every paper.
      scale: quick uses data that come with the package; cpu uses real data and smaller models or fewer runs; short,
        which few figures have, the paper's data and models for few epochs; paper has the sizes of the paper.
      out: folder for the results; each figure has its own folder PAPER/FIGURE-SCALE there.
      processes: scripts that run at the same time.
      resume: skip figures whose results exist and were made by the same commit.
      json: new file for the printed table, as JSON.
    """
    if (paper is None) != all:
        raise ValueError("paper or all must be given" if paper is None else "paper must not be given with all")
    _check_place(json)
    rows = scripts().reproduce(paper, figure, scale, out, processes, resume)
    _write(json, rows)
    if any(row.problems for row in rows):
        sys.exit(_FAILED)


def _list(root: tyro.conf.Positional[pathlib.Path] = pathlib.Path("results"), json: _Json = None) -> None:
    """List the runs in a folder and in the folders below it, and how far each has come.

    Args:
      root: folder to search for runs.
      json: new file for the printed table, as JSON.
    """
    _save(lambda: commands.list_runs(root), json)


def _of_systems(
    about: str, work: Callable[..., commands.Outcome], parts_of: Callable[[str], Mapping[str, Options]]
) -> Callable:
    """A command with a subcommand for each system; its form is a class with the system's name."""
    forms = [form(name, _first_line(name), parts_of(name)) for name in systems.__all__]
    chosen = Union[tuple(Annotated[filled, tyro.conf.subcommand(name=filled.__name__)] for filled in forms)]  # noqa: UP007

    def command(system: chosen) -> None:  # pyright: ignore[reportInvalidTypeForm]
        values = values_of(system)
        _check_place(values["json"])
        outcome = work(type(system).__name__, values)
        _write(values["json"], outcome.rows)
        if outcome.interrupted or outcome.failed:
            sys.exit(_INTERRUPTED if outcome.interrupted else _FAILED)

    command.__doc__ = about
    return command


def _first_line(system: str) -> str:
    """First line of the docstring of the module."""
    return (sys.modules[getattr(systems, system).__module__].__doc__ or "").partition("\n")[0]


def _save(command: Callable[[], list], file: pathlib.Path | None) -> list:
    """Run a command and write the table it printed to a file."""
    _check_place(file)
    rows = command()
    _write(file, rows)
    return rows


def _check_place(file: pathlib.Path | None) -> None:
    """Refuse a missing folder or an existing file before the work begins."""
    if file is not None and not file.parent.is_dir():
        raise FileNotFoundError(f"json must be a file in a folder that exists, got {file}")
    if file is not None and file.exists():
        raise FileExistsError(f"json must be a new file, got {file}")


def _write(file: pathlib.Path | None, rows: Sequence) -> None:
    """Of several processes the first one writes; asking which this is would start the devices of one that is alone."""
    if file is not None and (not jax.distributed.is_initialized() or processes.is_first()):
        atomic_file.write(file, atomic_file.to_json([row._asdict() for row in rows]))


@functools.cache
def _commands() -> dict[str, Callable]:
    """By name; made once, as the forms of all systems take longer to make than a command line to read."""
    return {
        "demo": _demo,
        "run": _of_systems("Run a system on a data set.", commands.run, lambda name: options_by_part(name) | _RUN),
        "sweep": _of_systems(
            "Run a system at every point of a grid.", commands.sweep, lambda name: options_by_part(name) | _SWEEP
        ),
        "audit": _of_systems(_AUDIT, audit_command.audit, audit_command.parts_of),
        "reproduce": _reproduce,
        "list": _list,
        "bench": _bench,
    }


def main() -> None:
    """Run a command. An error in its input is one line on standard error and exit status 2."""
    try:
        tyro.extras.subcommand_cli_from_dict(
            _commands(),
            prog="fedjax-priv",
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
        )
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except (ValueError, OSError, SimulationError) as error:
        if isinstance(error, SimulationError) and not isinstance(error.__cause__, OSError | ValueError):
            raise
        print(f"fedjax-priv: {error}", file=sys.stderr)
        sys.exit(_WRONG)

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
_AXIS = f"{HOW}, for the seed or an option of the system, its training, server, rule or attack; once for each axis."
_STATIC = "an axis whose values are compiled one by one, such as alpha of sparse_secagg; give it once for each."
_AUDIT = "Look for a contradiction to what a system claims about privacy; exit status 1 if there is one."
_NAMES = tyro.conf.UseAppendAction[tuple[str, ...]]
_SWEEP = {
    "axes": {"axis": Option(_NAMES, (), _AXIS), "static": Option(_NAMES, (), _STATIC)},
    "run": options_of(commands.RunOptions),
}


def _demo(
    out: pathlib.Path = pathlib.Path("results/demo"),
    rounds: int = 40,
    seed: int = 0,
    json: pathlib.Path | None = None,
) -> None:
    """Train 100 clients on digits under the systems of four papers, honest and attacked; print a table, write a figure.

    Args:
      out: folder for the figure and the table.
      rounds: rounds of each system.
      seed: of the split, the initial model and every draw.
      json: file for the printed table.
    """
    from fedjax_priv.cli.demo.run import demo

    _save(lambda: demo(out, rounds, seed), json)


def _bench(repeats: int = 7, json: pathlib.Path | None = None) -> None:
    """Time FedAvg rounds against the matmul rate measured in the same run.

    Args:
      repeats: rounds timed.
      json: file for the printed table.
    """
    from fedjax_priv.cli.bench import bench

    _save(lambda: bench(repeats), json)


def _reproduce(
    paper: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="PAPER")] = None,
    figure: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="FIGURE")] = None,
    all: bool = False,
    scale: Literal["quick", "cpu", "paper"] = "quick",
    out: pathlib.Path = pathlib.Path("results"),
    processes: int = 2,
    resume: bool = False,
    json: pathlib.Path | None = None,
) -> None:
    """Make figures and tables of the papers again, with a verdict on what each claims.

    Args:
      paper: folder of its scripts below `experiments`.
      figure: one of its scripts; all of them if not given.
      all: every script of every paper.
      scale: quick, on embedded data; cpu, real data and smaller models or fewer runs; or the paper's own.
      out: folder for the results, PAPER/FIGURE-SCALE in it.
      processes: scripts at a time.
      resume: leave out those whose results are there, of the same commit.
      json: file for the printed table.
    """
    if (paper is None) != all:
        raise ValueError("paper or all must be given" if paper is None else "paper must not be given with all")
    _check_place(json)
    rows = scripts().reproduce(paper, figure, scale, out, processes, resume)
    _write(json, rows)
    if any(row.problems for row in rows):
        sys.exit(_FAILED)


def _list(root: tyro.conf.Positional[pathlib.Path] = pathlib.Path("results"), json: pathlib.Path | None = None) -> None:
    """Show the runs in a folder and in those below it.

    Args:
      root: the folder.
      json: file for the printed table.
    """
    _save(lambda: commands.list_runs(root), json)


def _of_systems(
    about: str, work: Callable[..., commands.Outcome], parts_of: Callable[[str], Mapping[str, Options]]
) -> Callable:
    """A command with a subcommand for each system; the form that is filled has the system's name."""

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
    """What the module of a system says it is."""
    return (sys.modules[getattr(systems, system).__module__].__doc__ or "").partition("\n")[0]


def _save(command: Callable[[], list], file: pathlib.Path | None) -> None:
    """Runs a command and keeps the table it printed."""
    _check_place(file)
    _write(file, command())


def _check_place(file: pathlib.Path | None) -> None:
    """A folder that is missing, or a file that is there, is an error before the work."""
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
    """By name; made once, as the forms of all systems take longer than reading a command line."""
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
    """Runs a command; what is wrong with its input is one line on standard error and exit status 2."""
    try:
        tyro.extras.subcommand_cli_from_dict(
            _commands(),
            prog="fedjax-priv",
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
        )
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except (ValueError, OSError, SimulationError) as error:
        if isinstance(error, SimulationError) and not isinstance(error.__cause__, OSError):
            raise
        print(f"fedjax-priv: {error}", file=sys.stderr)
        sys.exit(_WRONG)

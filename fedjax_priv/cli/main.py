"""The command `fedjax-priv`."""

import functools
import pathlib
import platform
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Annotated, Literal

import tyro

from fedjax_priv import _interrupt, systems
from fedjax_priv.cli import json_file
from fedjax_priv.cli.program_cache import keep_programs
from fedjax_priv.cli.reproduce import scripts
from fedjax_priv.cli.suggestions import check_words
from fedjax_priv.cli.system_commands import COMMANDS, FAILED, named_only, system_commands

_WRONG = 2
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

    rows = _compute(lambda: demo(out, rounds, seed), json)
    if failed := [row for row in rows if row.failed_rounds == rounds]:
        why = "; ".join(f"{row.system}, {row.status}" for row in failed)
        print(f"fedjax-priv: every round of {len(failed)} of {len(rows)} systems failed: {why}", file=sys.stderr)
        sys.exit(FAILED)


def _bench(repeats: int = 7, json: _Json = None) -> None:
    """Time rounds of FedAvg, and compare with the rate of matrix products measured in the same run.

    Args:
      repeats: rounds to time.
      json: new file for the printed table, as JSON.
    """
    from fedjax_priv.cli.bench import bench

    _compute(lambda: bench(repeats), json)


def _reproduce(
    paper: Annotated[_Positional, tyro.conf.arg(metavar="[PAPER]", help_behavior_hint="")] = None,
    figure: Annotated[_Positional, tyro.conf.arg(metavar="[FIGURE]", help_behavior_hint="")] = None,
    all: _Flag = False,
    scale: Literal["quick", "cpu", "short", "paper"] = "quick",
    out: pathlib.Path = pathlib.Path("results"),
    processes: int = 2,
    resume: _Flag = False,
    vectors: _Flag = False,
    json: _Json = None,
) -> None:
    """Make figures and tables of the papers again, and check what the papers claim.

    Args:
      paper: a folder of experiments/, such as fedrep; needed unless you give --all.
      figure: a script in that folder, without .py; by default all of them.
      all: make every figure of every paper.
      scale: quick uses data that come with the package; cpu uses real data and smaller models or fewer runs; short,
        which few figures have, the paper's data and models for few epochs, or a part of cpu; paper has the sizes of the
        paper.
      out: folder for the results; each figure has its own folder PAPER/FIGURE-SCALE there.
      processes: scripts that run at the same time.
      resume: skip figures whose results exist and were made by the same commit, vectors too if they are asked for. In a
        checkout with changes, and outside one, all are made again.
      vectors: write each picture as PDF and SVG too, next to the PNG.
      json: new file for the printed table, as JSON.
    """
    papers = scripts()  # or say first that they are not here
    if (paper is None) != all:
        raise ValueError("paper or all must be given" if paper is None else "paper must not be given with all")
    json_file.check_place(json)
    rows = papers.reproduce(paper, figure, scale, out, processes, resume, vectors)
    json_file.write(json, rows)
    if any(row.problems for row in rows):
        sys.exit(FAILED)


def _list(root: tyro.conf.Positional[pathlib.Path] = pathlib.Path("results"), json: _Json = None) -> None:
    """List the runs in a folder and in the folders below it, and how far each has come.

    Args:
      root: folder to search for runs.
      json: new file for the printed table, as JSON.
    """
    from fedjax_priv.cli.commands import list_runs

    json_file.check_place(json)
    json_file.write(json, list_runs(root))


def _ledger(folder: tyro.conf.Positional[pathlib.Path], json: _Json = None) -> None:
    """Print the privacy ledger of a finished run: each adversary, what is claimed, what is proved and how.

    Args:
      folder: of the run.
      json: new file for the printed table, as JSON.
    """
    from fedjax_priv.cli.commands import ledger_of

    json_file.check_place(json)
    json_file.write(json, ledger_of(folder))


def _plot(
    folders: Annotated[
        tyro.conf.Positional[tuple[pathlib.Path, ...]],
        tyro.conf.arg(metavar="FOLDER [FOLDER ...]", help_behavior_hint=""),
    ],
    x: Annotated[str, tyro.conf.arg(metavar="NAME")] = "round",
    y: Annotated[str, tyro.conf.arg(metavar="NAME")] = "accuracy",
    adversary: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None,
    out: pathlib.Path = pathlib.Path("results/plot.svg"),
    json: _Json = None,
) -> None:
    """Draw recorded runs and sweeps: a line per setting, with Student's 95% interval over its seeds.

    Args:
      folders: of runs or sweeps, or above such folders. Runs that differ in the seed alone are one line.
      x: round, bytes (that a client has sent) or seconds; epsilon (proved) or a metric, if all runs have it; of sweeps,
        an axis of numbers such as learning_rate.
      y: a metric such as accuracy, or loss.
      adversary: whose epsilon; by default the one with the largest, of those who have one in all runs.
      out: file to write, .svg, .pdf or .png; one that is there is replaced.
      json: new file for the printed table, as JSON.
    """
    from fedjax_priv.cli.plot_command import plot

    if not folders:
        raise ValueError("folders must be given: those of runs or sweeps, or above them")
    json_file.check_place(json)
    json_file.write(json, plot(folders, x, y, adversary, out))


def _atlas(num_clients: int = 32, num_byzantine: int = 3, buffer_size: int = 4, json: _Json = None) -> None:
    """Say which transport, noise, rule and compression go together, and why others do not; nothing is trained.

    Args:
      num_clients: clients in the data.
      num_byzantine: Byzantine clients among them.
      buffer_size: clients whose uploads are summed to a row of the rule, where there are buffers.
      json: new file for the table, as JSON, with a sentence for each stack.
    """
    from fedjax_priv.cli.atlas_command import atlas

    json_file.check_place(json)
    json_file.write(json, atlas(num_clients, num_byzantine, buffer_size))


def _compute(command: Callable[[], list], file: pathlib.Path | None) -> list:
    """Run programs, print a table, and write it to a file."""
    json_file.check_place(file)
    keep_programs()
    rows = command()
    json_file.write(file, rows)
    return rows


@functools.cache
def _commands(arguments: tuple[str, ...]) -> dict[str, Callable]:
    """By name; see `system_commands` for what the arguments say."""
    others = {
        "reproduce": _reproduce,
        "list": _list,
        "plot": _plot,
        "ledger": _ledger,
        "atlas": _atlas,
        "bench": _bench,
    }
    return named_only({"demo": _demo, **system_commands(arguments), **others}, arguments)


def main() -> None:
    """Run a command. A wrong input ends it with exit status 2 and one line on standard error.

    tyro refuses options that it cannot read, with the same status, in a box that shows the help of the option.
    """
    _interrupt.as_usual()
    if sys.argv[1:] == ["--version"]:
        ours, theirs = map(metadata.version, ("fedjax-priv", "jax"))
        print(f"fedjax-priv {ours}, JAX {theirs}, Python {platform.python_version()}")
        return
    try:
        check_words(sys.argv[1:], _commands(()), dict.fromkeys(COMMANDS, systems.__all__))
        tyro.extras.subcommand_cli_from_dict(
            _commands(tuple(sys.argv[1:])),
            prog="fedjax-priv",
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
        )
    except KeyboardInterrupt:
        sys.exit(_interrupt.INTERRUPTED)
    except Exception as error:
        if not _is_of_the_input(error):
            raise
        print(f"fedjax-priv: {error}", file=sys.stderr)
        sys.exit(_WRONG)


def _is_of_the_input(error: Exception) -> bool:
    from fedjax_priv.runs.ending import SimulationError

    cause = error.__cause__ if isinstance(error, SimulationError) else error
    if isinstance(cause, ImportError):  # of a package that is not installed, as we say it
        return not (cause.name or "").startswith("fedjax_priv")
    return isinstance(cause, ValueError | OSError)

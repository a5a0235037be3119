"""The commands with a subcommand for each system: run, sweep and audit.

The options of all systems take longer to make than JAX to import, so only a command that is named gets its systems, and
only a system that is named its options.
"""

import sys
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, NamedTuple, Union

import tyro

from fedjax_priv import systems
from fedjax_priv._interrupt import INTERRUPTED
from fedjax_priv.cli import json_file
from fedjax_priv.cli.options import Options, form, values_of
from fedjax_priv.cli.program_cache import keep_programs

FAILED = 1
_ALL = "--tyro-"
"""How options begin that print the completions of a shell, for which everything is needed."""


class Work(NamedTuple):
    """What a command does with a system."""

    do: Callable[[str, Mapping[str, Any]], Any]  # (system, values) -> a `commands.Outcome`
    parts_of: Callable[[str], Mapping[str, Options]]  # options by part


def _run() -> Work:
    from fedjax_priv.cli import commands, run_options

    return Work(commands.run, run_options.run_parts)


def _sweep() -> Work:
    from fedjax_priv.cli import commands, run_options

    return Work(commands.sweep, run_options.sweep_parts)


def _audit() -> Work:
    from fedjax_priv.cli import audit_command

    return Work(audit_command.audit, audit_command.parts_of)


COMMANDS = {
    "run": ("Run a system on a data set.", _run),
    "sweep": ("Run a system at every point of a grid.", _sweep),
    "audit": (
        "Test by experiment what a system claims about privacy; exit status 1 if a bound contradicts a claim.",
        _audit,
    ),
}


def system_commands(arguments: Collection[str]) -> dict[str, Callable]:
    """The commands by name.

    Args:
      arguments: of the command line; what they do not name is there for its help alone.
    """
    asked = _asked(arguments)
    return {
        name: _of_systems(about, load, asked) if asked(name) else _only_help(about)
        for name, (about, load) in COMMANDS.items()
    }


def named_only(commands: Mapping[str, Callable], arguments: Collection[str]) -> dict[str, Callable]:
    """The commands, without options where the arguments do not name them: no hint is about another command's."""
    asked = _asked(arguments)
    return {name: command if asked(name) else _only_help(command.__doc__) for name, command in commands.items()}


def _asked(arguments: Collection[str]) -> Callable[[str], bool]:
    """Whether arguments name a command or a system, or ask for everything."""
    words = {argument.replace("-", "_") for argument in arguments}
    whole = any(argument.startswith(_ALL) for argument in arguments)
    return lambda name: whole or name in words


def _of_systems(about: str, load: Callable[[], Work], asked: Callable[[str], bool]) -> Callable:
    """A command; the form of a system is a class with its name."""
    parts_of = lambda name: load().parts_of(name) if asked(name) else {}
    forms = [form(name, _first_line(name), parts_of(name)) for name in systems.__all__]
    chosen = Union[tuple(Annotated[filled, tyro.conf.subcommand(name=filled.__name__)] for filled in forms)]  # noqa: UP007

    def command(system: chosen) -> None:  # pyright: ignore[reportInvalidTypeForm]
        values = values_of(system)
        json_file.check_place(values["json"])
        keep_programs()
        outcome = load().do(type(system).__name__, values)
        if not outcome.interrupted:  # else the command that resumes the run would find a file of that name
            json_file.write(values["json"], outcome.rows)
        if outcome.interrupted or outcome.failed:
            sys.exit(INTERRUPTED if outcome.interrupted else FAILED)

    command.__doc__ = about
    return command


def _only_help(about: str | None) -> Callable:
    def command() -> None: ...

    command.__doc__ = about
    return command


def _first_line(system: str) -> str:
    """First line of the docstring of the module."""
    return (sys.modules[getattr(systems, system).__module__].__doc__ or "").partition("\n")[0]

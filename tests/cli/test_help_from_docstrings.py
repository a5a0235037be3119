"""What `--help` says is for a shell user."""

import contextlib
import io
import re

import pytest
import tyro

from fedjax_priv import systems
from fedjax_priv.cli import main
from fedjax_priv.cli.help_from_docstrings import parameter_help, with_flags
from fedjax_priv.cli.options import form, options_of

FOR_PYTHON = (
    r"\bas in [a-z]\w+\b(?! the)|traced|\bin memory\b|\bNone\b|\bNaN if\b|`|\bSTR\b|\bFLOAT\b"
    r"|\b(?:jit|vmap|pytree|callable|ndarray|NamedTuple|dict|dtype|keyword|argument)\b|\b[a-z]+_[a-z]+\(|\[n\]|\[n, d\]"
)
"""A reference to a docstring, words of Python or JAX, names of functions in backquotes, types, shapes."""


def shown(*arguments):
    """The help of a command, its lines joined."""
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["fedjax-priv", *arguments, "--help"])
        patch.setenv("COLUMNS", "500")
        with pytest.raises(SystemExit):
            main.main()
    return re.sub(r"[\s│]+", " ", out.getvalue())


COMMANDS = [[name] for name in main._commands(())]
OF_SYSTEMS = [["run", system] for system in systems.__all__] + [
    [c, s] for c in ("sweep", "audit") for s in ("secagg", "wireless")
]
"""What is said of a system is the same in all three commands."""


@pytest.mark.parametrize("command", [*COMMANDS, *OF_SYSTEMS], ids=" ".join)
def test_the_help_of_every_command_is_for_a_shell_user(command):
    assert re.findall(f".{{0,60}}(?:{FOR_PYTHON})", shown(*command)) == []


def spoken(step_size, *, rate_limit: float = 1.0, mode: int | None = None, where: str = ""):
    """The control: what the test above must find.

    Args:
      step_size: not an option.
      rate_limit: see what `simulate` returns.
      mode: of a traced value `[n]`, or None.
    """


def test_help_for_callers_from_python_would_be_found():
    filled = form("spoken", "", {"part": options_of(spoken)})
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit):
        tyro.cli(filled, args=["--help"])
    assert {*re.findall(FOR_PYTHON, out.getvalue())} >= {"`", "traced", "None", "[n]"}


def secagg(*, clip: float, leave: float, noise: float, scale: float, exact: bool, size: int, mean: float):
    """It has the name of a system, and refers to it.

    Args:
      clip: as in `secagg`; of all coordinates.
      leave: Above 0, as in `secagg`; may be traced. In Python, also an array `[n]`, as optax has. Half by default.
      noise: takes `clip` and `kind="slow"` (in `memory`, `[n, d]`), of every client or `[n]`; size_of is `tau`.
      scale: None: no limit.
      exact: as in `no_such_function`.
      size: of a client; static unless it is a name; at most 9, see `simulate`. By default 2.
      mean: G; of a coordinate, may be traced.
    """


def test_references_are_followed_and_words_for_python_left_out():
    found = parameter_help(secagg)
    system = parameter_help(systems.secagg)["clip"]
    assert found["clip"] == system.removesuffix(".") + "; of all coordinates." and len(system) > 30
    assert found["leave"] == "above 0. Half by default."
    assert found["noise"] == 'takes `clip` and `kind="slow"`; size_of is `tau`.'
    assert found["scale"] == "if left out: no limit."
    assert found["size"] == "of a client; at most 9. By default 2."
    assert found["mean"] == "G; of a coordinate."


def test_names_of_options_are_shown_as_they_are_typed():
    names = {"clip", "kind", "size_of"}
    said = with_flags('takes `clip` and `kind="slow"`; size_of is `tau`, unlike my_size_of and clip', names)
    assert said == "takes --clip and --kind slow; --size-of is tau, unlike my_size_of and clip"
    assert with_flags("`simulate`, `layers.align`, `M - f`", names) == "`simulate`, `layers.align`, M - f"

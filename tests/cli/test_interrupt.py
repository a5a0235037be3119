"""Ctrl-C while Python still imports JAX."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from children import command
from fedjax_priv import _interrupt
from fedjax_priv.cli import commands

ROOT = pathlib.Path(_interrupt.__file__).parents[1]
INTERRUPTS = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise ImportError('lost')\n"


def started(folder, *how, inherited=signal.default_int_handler):
    """A process in which the import of JAX is interrupted, as an extension module hands that on."""
    (folder / "jax").mkdir()
    (folder / "jax" / "__init__.py").write_text(INTERRUPTS)
    path = os.pathsep.join(map(str, (folder, ROOT)))
    before = signal.signal(signal.SIGINT, inherited)  # a child inherits that it is ignored
    try:
        return subprocess.run(
            [sys.executable, *how], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("by", ["module", "script"])
def test_the_command_ends_with_a_line_and_the_status_of_an_interrupt(tmp_path, by):
    (tmp_path / "fedjax-priv").write_text("from fedjax_priv.cli.main import main\n")
    how = ["-m", "fedjax_priv"] if by == "module" else [tmp_path / "fedjax-priv"]
    ended = started(tmp_path, *how, "list")
    assert (ended.returncode, ended.stderr, ended.stdout) == (130, "fedjax-priv: interrupted\n", "")


def test_a_command_whose_parent_ignores_interrupts_goes_on(tmp_path):
    """As under `nohup`."""
    ended = started(tmp_path, "-m", "fedjax_priv", "list", inherited=signal.SIG_IGN)
    assert ended.returncode != 130 and ended.stderr.endswith("\nImportError: lost\n")


def test_a_program_that_imports_the_package_gets_its_interrupt(tmp_path):
    ended = started(tmp_path, "-c", "import fedjax_priv")
    assert ended.returncode != 130 and ended.stderr.endswith("\nKeyboardInterrupt\n")


def test_a_command_that_has_begun_ends_with_this_status_and_what_it_says_itself(monkeypatch, capsys):
    """By an exception, so that nothing is left half done."""

    def interrupted(*_):
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(commands, "list_runs", interrupted)
    before = signal.signal(signal.SIGINT, _interrupt._end)
    try:
        with pytest.raises(SystemExit) as stopped:
            command("list")
    finally:
        signal.signal(signal.SIGINT, before)
    assert stopped.value.code == 130 and capsys.readouterr().err == ""

"""Processes of their own at the price of a fork: their parent has imported what they need, and started no device."""

import atexit
import contextlib
import functools
import importlib
import multiprocessing
import multiprocessing.forkserver
import os
import pathlib
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable

import jax
import pytest
from jax._src import xla_bridge

from fedjax_priv.cli import main

HERE = pathlib.Path(__file__).resolve().parent
LATER = [
    "fedjax_priv.cli.commands", "fedjax_priv.analysis.accuracy_and_traffic", "sklearn.datasets",
    "sklearn.model_selection", "scipy.io", "h5netcdf",
]  # fmt: skip
"""What a command imports only when it needs it."""


@functools.cache
def _forks():
    """A server that imports this file and then forks whenever it is asked; it never computes anything itself."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *LATER])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (HERE, HERE.parent))))
        multiprocessing.forkserver.ensure_running()
    return context


def _begin(folder: pathlib.Path, streams: pathlib.Path, options: dict, call: Callable, *args: object) -> None:
    """What a child does: as a process does that was started from a shell in that folder."""
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(streams / name, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(folder)
    late = bool(options) and xla_bridge.backends_are_initialized()
    assert not late, f"importing {call.__module__} started a device: too late for options"
    for name, value in ({"jax_platforms": "cpu", "jax_disable_most_optimizations": True} | options).items():
        jax.config.update(name, value)
    try:
        call(*args)
    finally:
        atexit._run_exitfuncs()  # which a fork of the server leaves out


def command(*arguments: object) -> None:
    """`fedjax-priv` with arguments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["fedjax-priv", *map(str, arguments)])
        main.main()


def refused_command(capsys, *arguments):
    """What a command says that ends with exit status 2."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        command(*arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def help_alone(*arguments: str) -> None:
    """`fedjax-priv` shows its help, for which it needs no device."""
    with contextlib.suppress(SystemExit):
        command(*arguments, "--help")
    assert not xla_bridge.backends_are_initialized()


def import_again() -> None:
    """The package is imported as for the first time; then the devices are counted."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "fedjax_priv"]:
        del sys.modules[name]
    importlib.import_module("fedjax_priv")
    count_devices()


def count_devices() -> None:
    """What was imported so far has started none."""
    assert not xla_bridge.backends_are_initialized()
    print(jax.device_count())


def never_imported(name: str) -> None:
    """By nothing that this file imports."""
    assert name not in sys.modules


class Child:
    """A process that calls a function; a negative status is the signal that ended it."""

    def __init__(self, call: Callable, *args: object, folder: pathlib.Path | str = ".", **options: object):
        self._streams = pathlib.Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, self._streams)
        where = pathlib.Path(folder).resolve(), self._streams
        self._process = _forks().Process(target=_begin, args=(*where, options, call, *args), daemon=True)
        self._process.start()

    def send_signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def status(self) -> int | None:
        """None while it runs."""
        return self._process.exitcode

    def ended(self, status: int = 0, timeout: float = 200) -> tuple[str, str]:
        """What it printed on both streams, once it has ended as it should."""
        self._process.join(timeout)
        out, err = ((self._streams / name).read_text() for name in ("out", "err"))
        assert self.status() == status, err
        return out, err

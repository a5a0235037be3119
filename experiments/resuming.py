"""Where the runs of an experiment are written, so that one that was stopped continues from its last checkpoint."""

import contextlib
import contextvars
import itertools
import pathlib
import time
from collections.abc import Callable, Iterator

from fedjax_priv.runs.records.run_writer import Keep

_FOLDERS: contextvars.ContextVar[Iterator[pathlib.Path] | None] = contextvars.ContextVar("folders", default=None)
_SECONDS = "seconds.txt"


@contextlib.contextmanager
def resuming(folder: pathlib.Path | None) -> Iterator[None]:
    """Within it, `next_run` names subfolders of `folder`; with None, runs are not written."""
    folders = None if folder is None else (folder / f"run-{number}" for number in itertools.count())
    token = _FOLDERS.set(folders)
    try:
        yield
    finally:
        _FOLDERS.reset(token)


def next_run() -> Keep | None:
    """`keep` of the experiment's next `simulate` or `sweep`: runs are numbered in the order they start."""
    folders = _FOLDERS.get()
    return None if folders is None else Keep(next(folders), resume=True)


@contextlib.contextmanager
def stopwatch(folder: pathlib.Path | None) -> Iterator[Callable[[], float]]:
    """Seconds so far, with those of earlier processes that worked in `folder` and were not killed."""
    file = None if folder is None else folder / _SECONDS
    before = float(file.read_text()) if file and file.exists() else 0.0
    start = time.perf_counter()
    elapsed = lambda: before + time.perf_counter() - start
    try:
        yield elapsed
    finally:
        if file and file.parent.exists():
            file.write_text(f"{elapsed():.1f}\n")

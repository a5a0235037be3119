"""Where the runs of an experiment are written, so that one that was stopped continues from its last checkpoint."""

import contextlib
import contextvars
import itertools
import pathlib
import time
from collections.abc import Callable, Iterator

from fedjax_priv.runs.records import atomic_file
from fedjax_priv.runs.records.run_writer import Keep

_FOLDER: contextvars.ContextVar[tuple[pathlib.Path, Iterator[int]] | None] = contextvars.ContextVar(
    "folder", default=None
)
_SECONDS = "seconds.txt"


@contextlib.contextmanager
def resuming(folder: pathlib.Path | None) -> Iterator[None]:
    """Within it, `next_run` names subfolders of `folder`; with None, runs are not written."""
    token = _FOLDER.set(None if folder is None else (folder, itertools.count()))
    try:
        yield
    finally:
        _FOLDER.reset(token)


def next_run(name: str | None = None) -> Keep | None:
    """`keep` of the experiment's next `simulate` or `sweep`; runs without a name are numbered in the order they start.

    A card that makes fewer runs at a smaller scale names them: a larger scale then continues from them.
    """
    if (found := _FOLDER.get()) is None:
        return None
    folder, numbers = found
    return Keep(folder / f"run-{next(numbers) if name is None else name}", resume=True)


@contextlib.contextmanager
def stopwatch(folder: pathlib.Path | None) -> Iterator[Callable[[], float]]:
    """Seconds so far, with those of earlier processes that worked in `folder` and were not killed."""
    file = None if folder is None else folder / _SECONDS
    before = 0.0 if file is None else _seconds(file)
    start = time.perf_counter()
    elapsed = lambda: before + time.perf_counter() - start
    try:
        yield elapsed
    finally:
        if file and file.parent.exists():
            with contextlib.suppress(OSError):  # how the work ended counts more
                atomic_file.write(file, f"{elapsed():.1f}\n".encode())


def _seconds(file: pathlib.Path) -> float:
    """What a file says; 0 of one that is missing or broken, which must not keep a card from being made."""
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return 0.0

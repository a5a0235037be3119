"""How a run or a sweep ends: it is finished, or SIGTERM, Ctrl-C or an error stops it."""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sized

import xarray as xr

from fedjax_priv.engine import processes
from fedjax_priv.runs.chunk_loop import SIGTERM_STATUS, Hooks, Log
from fedjax_priv.runs.records.run_writer import RunWriter


class SimulationError(RuntimeError):
    """An error, its `__cause__`, ended a run or a sweep early. `dataset` has the chunks or runs finished before."""

    def __init__(self, message: str, dataset: xr.Dataset):
        super().__init__(message)
        self.dataset = dataset

    def __reduce__(self) -> tuple:
        return type(self), (*self.args, self.dataset)


def run_to_the_end(
    work: Callable[[Hooks], None],
    finished: Sized,
    *,
    result: Callable[..., xr.Dataset],
    so_far: Callable[[], str],
    writer: RunWriter | None,
    log: Log | None,
) -> xr.Dataset:
    """Does the work, which adds chunks or runs to `finished`; writes and returns `result(interrupted=0)`.

    After Ctrl-C it returns `result(interrupted=1)` and prints `so_far()`, in words. If nothing has finished, Ctrl-C and
    errors are raised as they are.

    Raises:
      SystemExit: SIGTERM arrived, and there is a writer.
      SimulationError: the work raised an error after something had finished.
    """
    try:
        with _sigterm_noticed(writer is not None) as stop:
            work(Hooks(writer, log, stop))
            whole = result(interrupted=0)
            if writer:
                writer.write_result(whole)
                _end_if_asked(writer, stop)
        return whole
    except KeyboardInterrupt:
        if not finished:
            raise
        print(f"interrupted: {so_far()} are kept", file=sys.stderr)
        return result(interrupted=1)
    except Exception as error:
        if not finished:
            raise
        raise SimulationError(f"after {so_far()}: {error}", result(interrupted=1)) from error


def _end_if_asked(writer: RunWriter, stop: Callable[[], bool]) -> None:
    """Exits if SIGTERM arrived in the last rounds: this run is done, but the process must not start another one."""
    if processes.any_process(stop()):
        if processes.is_first():
            print(f"SIGTERM: all rounds are done, the result is in {writer.folder}", file=sys.stderr)
        sys.exit(SIGTERM_STATUS)


@contextlib.contextmanager
def _sigterm_noticed(listen: bool) -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether SIGTERM has arrived. On the main thread, SIGTERM no longer ends the process.

    Raises:
      SystemExit: an error or Ctrl-C arrived after SIGTERM: the process must not start another run.
    """
    arrived = threading.Event()
    on_main = threading.current_thread() is threading.main_thread()
    if not listen or not on_main or signal.getsignal(signal.SIGTERM) is None:  # a handler in C cannot be put back
        yield arrived.is_set
        return
    before = signal.signal(signal.SIGTERM, lambda *_: arrived.set())
    try:
        yield arrived.is_set
    except (Exception, KeyboardInterrupt) as error:
        if not arrived.is_set():
            raise
        print(f"SIGTERM: the run can be resumed; it ended with {error!r}", file=sys.stderr)
        raise SystemExit(SIGTERM_STATUS) from error
    finally:
        signal.signal(signal.SIGTERM, before)

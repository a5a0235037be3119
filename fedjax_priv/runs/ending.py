"""How a run or a sweep ends: finished, stopped by SIGTERM, interrupted by Ctrl-C, or broken off by an error."""

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
    """A run that an error ended early. The error is the cause; `dataset` holds what had finished before."""

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
    """Do the work, which adds chunks or runs to `finished`; write and return their `result(interrupted=0)`.

    Ctrl-C returns the result of what had finished, which `so_far` names. If nothing had, Ctrl-C and errors pass.

    Raises:
      SystemExit: SIGTERM arrived, and there is a writer.
      SimulationError: the work raised an error.
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
    """SIGTERM during the last rounds: nothing is left to do, but the process must not go on to its next run."""
    if processes.any_process(stop()):
        if processes.is_first():
            print(f"SIGTERM: all rounds are done, the result is in {writer.folder}", file=sys.stderr)
        sys.exit(SIGTERM_STATUS)


@contextlib.contextmanager
def _sigterm_noticed(listen: bool) -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether SIGTERM has arrived; it no longer ends the process. Main thread only.

    Raises:
      SystemExit: an error or Ctrl-C arrived after SIGTERM: the process must not go on to its next run.
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

"""Signals that stop a card, the queue or `reproduce`: they raise, so that nothing goes on and nothing is half made."""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator

from fedjax_priv.runs.chunk_loop import SIGTERM_STATUS

_INTERRUPTED = 128 + signal.SIGINT
"""Exit status of a process that Ctrl-C ended, as a shell reports it."""


class _Interrupted(BaseException):
    """Ctrl-C, under a name at which `simulate` and `sweep` do not return what they have."""


def exit_status(main: Callable[[], int | None], interrupted: str) -> int:
    """Of a command: what `main` returns, 0 for None; after Ctrl-C 130, with a line instead of a traceback.

    Args:
      main: the command.
      interrupted: the line, on standard error.
    """
    try:
        return main() or 0
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return _INTERRUPTED


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within it, Ctrl-C during a run ends all: a card must take no run that was cut short for a whole one.

    Raises:
      KeyboardInterrupt: Ctrl-C arrived.
    """
    try:
        with _raising(signal.SIGINT, _Interrupted):
            yield
    except _Interrupted:
        raise KeyboardInterrupt from None


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Within it, SIGTERM ends the process as an error does: processes that it started can be ended first.

    Raises:
      SystemExit: SIGTERM arrived.
    """
    with _raising(signal.SIGTERM, lambda: SystemExit(SIGTERM_STATUS)):
        yield


@contextlib.contextmanager
def _raising(number: signal.Signals, error: Callable[[], BaseException]) -> Iterator[None]:
    """Main thread only; a signal that is ignored, as Ctrl-C is behind `nohup ... &`, stays so."""

    def raised(*_: object) -> None:
        raise error()

    before = signal.getsignal(number)
    on_main = threading.current_thread() is threading.main_thread()
    if not on_main or before in (signal.SIG_IGN, None):  # None: a handler in C cannot be put back
        yield
        return
    signal.signal(number, raised)
    try:
        yield
    finally:
        signal.signal(number, before)

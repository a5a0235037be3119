"""SIGTERM, as a scheduler sends it before it takes the machine away."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def noticed(listen: bool) -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether SIGTERM has arrived; it no longer ends the process. Main thread only."""
    arrived = threading.Event()
    if not listen or threading.current_thread() is not threading.main_thread():
        yield arrived.is_set
        return
    before = signal.signal(signal.SIGTERM, lambda *_: arrived.set())
    try:
        yield arrived.is_set
    finally:
        signal.signal(signal.SIGTERM, before)

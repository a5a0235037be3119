"""Ctrl-C in the first second of the command, while Python imports JAX: one line, and nothing else.

Imports cannot be ended by KeyboardInterrupt alone: extension modules make an ImportError of it, or lose it.
"""

import os
import signal
import sys

INTERRUPTED = 128 + 2
"""Exit status of a command that Ctrl-C ended, as a shell reports it."""


def until_the_command_runs() -> None:
    """Ctrl-C ends the process at once; only if this is the command, and its parent does not ignore Ctrl-C for it."""
    if _is_the_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def as_usual() -> None:
    """Ctrl-C raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_the_command() -> bool:
    by_module = sys.argv[0] == "-m" and "fedjax_priv" in sys.orig_argv  # so called while the package is imported
    return by_module or os.path.splitext(os.path.basename(sys.argv[0]))[0] == "fedjax-priv"


def _end(*_: object) -> None:
    print("fedjax-priv: interrupted", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)

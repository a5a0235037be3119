"""Failure as a value: bits set inside jit, translated to words on the host; and errors of functions on the host.

Those must not leave their callback: one device would stop while the others wait for it in a sum, and XLA would abort
the process. So the callback keeps its error and returns NaN, and the error is raised when the program has ended.
"""

import contextlib
import enum
import logging
from collections.abc import Iterator


class Status(enum.IntFlag):
    """Why a round, or one group of it, was left out."""

    OK = 0
    NOT_RECOVERED = 1
    CAP_OVERFLOW = 2
    FIELD_OVERFLOW = 4
    NOT_FINITE = 8
    WRONG_SHARES = 16
    IMPLAUSIBLE = 32
    OUT_OF_ORDER = 64


_TEXT = {
    Status.NOT_RECOVERED: "too few survivors to recover the sum",
    Status.CAP_OVERFLOW: "more coordinates selected, or more clients in a group, than the system allows",
    Status.FIELD_OVERFLOW: "a value so large that the sum could leave its range",
    Status.NOT_FINITE: "a value that is not finite",
    Status.WRONG_SHARES: "shares, or a public key, that do not fit what their owner published",
    Status.IMPLAUSIBLE: "a sum that honest clients cannot have, or that is no sum, as masks did not cancel",
    Status.OUT_OF_ORDER: "a cohort as large as the population that is not the population in order",
}


def describe(status: int) -> str:
    """Status bits in words: `"ok"`, or the reasons joined by `"; "`.

    Examples:
      >>> print(describe(0), describe(int(Status.NOT_FINITE)))
      ok a value that is not finite
    """
    return "; ".join(text for bit, text in _TEXT.items() if status & bit) or "ok"


_LISTENING: dict[object, list[RuntimeError]] = {}
_LOG = logging.getLogger("fedjax_priv")


def keep_error(message: str, cause: BaseException | None = None) -> None:
    """Keep an error for whoever runs the program; if nobody listens, as in a loop over `step`, log it."""
    error = RuntimeError(message)
    error.__cause__ = cause
    listening = list(_LISTENING.values())
    for kept in listening:
        kept.append(error)
    if not listening:
        _LOG.error("%s", message, exc_info=cause)


@contextlib.contextmanager
def errors_raised() -> Iterator[None]:
    """Raises the first error kept inside, at the end.

    Callbacks run in threads of XLA, so two programs that run side by side both get the error of one of them.

    Raises:
      RuntimeError: a function on the host failed; its own error is the cause.
    """
    mark, kept = object(), list[RuntimeError]()
    _LISTENING[mark] = kept
    try:
        yield
    finally:
        del _LISTENING[mark]
    if kept:
        raise kept[0]

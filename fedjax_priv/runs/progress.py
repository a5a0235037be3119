"""A progress bar that costs less than 1% of a run, and prints nothing if standard error is no terminal."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from rich import progress
from rich.console import Console
from rich.markup import escape

Update = Callable[..., None]
"""`update(rounds, *, seconds, metrics, megabytes, failed)`: totals so far, and the last metrics."""

_SHORTEST = 0.1  # seconds between two drawings
_FRACTION = 0.005  # of the run's time, which drawing may take


@contextlib.contextmanager
def bar(total: int, *, show: bool = True, console: Console | None = None) -> Iterator[Update]:
    """Shows the progress of a run of `total` rounds while the context lasts.

    Args:
      total: rounds of the whole run.
      show: False draws nothing.
      console: where to draw; by default standard error, and nothing is drawn where that is not a terminal.

    Yields:
      A function of the rounds done, the `seconds` they took, the last `metrics` by name, the mean `megabytes` that a
      client sent and received, and the number of `failed` rounds. Call it as often as you like: it draws at most every
      0.1 s, and spends at most 1/200 of the time on drawing.
    """
    if not show or not (console or sys.stderr.isatty()):
        yield lambda rounds, **totals: None
        return
    begun = time.perf_counter()
    console = console or Console(stderr=True)
    with progress.Progress(*_columns(), console=console, auto_refresh=False, expand=True) as shown:
        task = shown.add_task("", total=total, text="compiling")
        last = time.perf_counter()
        cost = last - begun

        def update(rounds: int, **totals) -> None:
            nonlocal last, cost
            now = time.perf_counter()
            if rounds < total and now - last < max(_SHORTEST, cost / _FRACTION):
                return
            shown.update(task, completed=rounds, text=_text(rounds, **totals), refresh=True)
            last = time.perf_counter()
            cost = last - now

        yield update


def _columns() -> tuple[progress.ProgressColumn, ...]:
    return (
        progress.TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        progress.BarColumn(bar_width=None),
        progress.TextColumn("{task.fields[text]}"),
        progress.TimeRemainingColumn(compact=True),
        progress.TextColumn("left"),
    )


def _text(rounds: int, *, seconds: float, metrics: Mapping[str, float], megabytes: float, failed: int) -> str:
    parts = [f"{rounds / seconds:.3g} rounds/s"] if seconds else []
    parts += [f"{escape(name)} {value:.4g}" for name, value in metrics.items()]
    parts += [f"{megabytes:.3g} MB/user"]
    parts += [f"[red]{failed} failed[/red]"] if failed else []
    return ", ".join(parts)

"""A curve that grows while a run is in progress, for notebooks."""

import io
import math
import time
from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure

from fedjax_priv import _validate
from fedjax_priv.analysis import line_styles

_FRACTION = 0.1  # of the run's time, which drawing may take

Show = Callable[[Figure], Any]
"""Shows a figure; it replaces the figure shown before."""


class LiveCurve:
    """A function for `simulate(log=...)`, called after each chunk of rounds; `x` and `y` are the points so far."""

    def __init__(self, rounds: int, metric: str, show: Show | None):
        self.x, self.y = list[int](), list[float]()
        self._rounds, self._metric, self._show = rounds, metric, show
        self._drawn_at, self._cost = -math.inf, 0.0
        self._figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = self._figure.subplots()
        (self._line,) = axes.plot([], [], **line_styles.line(0))
        self._line.set_markevery(1)
        axes.set(xlabel="round", ylabel=metric, xlim=(0, rounds))
        line_styles.plain(axes)

    def __call__(self, record: dict[str, Any]) -> None:
        """Adds a point.

        Raises:
          ValueError: the record has no such metric, or belongs to a second run.
        """
        known = [name for name, value in record.items() if name != "round" and isinstance(value, int | float)]
        if self._metric == "loss" and "loss" not in record:
            return  # before the first round
        _validate.one_of(known, metric=self._metric)
        if self.x and record["round"] <= self.x[-1]:
            raise ValueError("live_curve shows one run of simulate: make another one for each run, none for a sweep")
        self.x.append(record["round"])
        self.y.append(float(record[self._metric]))
        now = time.perf_counter()
        if record["round"] >= self._rounds or now - self._drawn_at > self._cost / _FRACTION:
            self._draw()
            self._drawn_at = time.perf_counter()
            self._cost = self._drawn_at - now

    def _draw(self) -> None:
        axes = self._figure.axes[0]
        self._line.set_data(self.x, self.y)
        axes.relim()
        axes.autoscale_view(scalex=False)
        self._show = self._show or _in_a_notebook()
        self._show(self._figure)


def live_curve(rounds: int, metric: str = "accuracy", *, show: Show | None = None) -> LiveCurve:
    """A curve by round that is redrawn while a run is in progress.

    Drawing takes at most a tenth of the time; the last round is always drawn.

    Args:
      rounds: of the run.
      metric: of `evaluate`, or another number of the log such as "loss".
      show: called with the figure when it is redrawn; by default the figure replaces the output of a notebook's cell.

    Returns:
      A function for `simulate(log=...)`.

    Raises:
      ValueError: `rounds` is not an integer >= 1. When called: the log has no such metric, or a second run calls it.
      ImportError: when called without `show` outside a notebook.

    Examples:
      >>> watched = dict(every=5, evaluate=evaluate, log=live_curve(100))  # doctest: +SKIP
      >>> simulate(system, key, params, train, rounds=100, **watched)  # doctest: +SKIP
    """
    _validate.integer(rounds=rounds)
    return LiveCurve(rounds, metric, show)


def _in_a_notebook() -> Show:
    """Shows figures below the cell, always in the same place; as PNG, since notebooks show plain figures only so."""
    from IPython.display import DisplayHandle, Image  # pyright: ignore[reportMissingImports]

    handle, shown = DisplayHandle(), False

    def show(figure: Figure) -> None:
        nonlocal shown
        file = io.BytesIO()
        figure.savefig(file, format="png")
        (handle.update if shown else handle.display)(Image(data=file.getvalue()))
        shown = True

    return show

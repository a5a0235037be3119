"""Curves of runs with intervals over seeds. The figure needs neither a display nor pyplot."""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from fedjax_priv import _validate
from fedjax_priv.analysis import line_styles
from fedjax_priv.analysis.curve_bands import Band, bands, common_adversary, known_x, known_y, numeric_axes

_WORDS = {"seconds": "seconds of simulation", "joules": "J spent by a client so far", "loss": "training loss"}


def curves(
    results: Mapping[str, xr.Dataset], x: str = "round", y: str = "accuracy", *, adversary: str | None = None
) -> Figure:
    """Plots one variable against another: a line per point of a sweep, with Student's 95% interval over seeds.

    Args:
      results: name -> result of `simulate` or `sweep`.
      x: as in `bands`. "epsilon" is on a logarithmic axis.
      y: as in `bands`.
      adversary: of "epsilon"; by default as in `bands`, among those who have a figure in all results.

    Returns:
      One panel. `figure.savefig("curves.svg")` writes it; `.pdf` is a vector format too.

    Raises:
      ValueError: `results` is not a dict with at least one result, a result has no such variable or adversary, or no
        result has a run with an evaluation.

    Examples:
      >>> curves({"FedAvg": grid}, x="bytes").savefig("bytes.svg")  # doctest: +SKIP
    """
    _validate.named_results(results)
    _validate.one_of(_common(results, known_x), x=x)
    _check_y(results, y)
    if x == "epsilon":
        adversary = common_adversary([*results.values()], adversary)
    lines = {
        _label(name, point): band
        for name, result in results.items()
        for point, band in bands(result, x, y, adversary=adversary).items()
    }
    if not lines:
        raise ValueError(
            f"results must have at least one run with an evaluation, got none of {', '.join(map(repr, results))}"
        )
    figure = _drawn(lines, x)
    words = f"proved eps at delta {_deltas(results)}, {adversary}" if x == "epsilon" else _WORDS.get(x, x)
    axes = figure.axes[0]
    last = ", last evaluation" if x in numeric_axes(next(iter(results.values()))) else ""
    axes.set(ylabel=_WORDS.get(y, y) + last, **({} if x == "bytes" else {"xlabel": words}))
    return figure


def _common(results: Mapping[str, xr.Dataset], known: Callable[[xr.Dataset], list[str]]) -> list[str]:
    """The names that are known for all results, in the order of the first result."""
    first, *others = (known(result) for result in results.values())
    return [name for name in first if all(name in other for other in others)]


def _check_y(results: Mapping[str, xr.Dataset], y: str) -> None:
    """Raises ValueError if a result lacks `y`; if the results share no variable, the error names one that lacks it."""
    common = _common(results, known_y)
    if not common:
        there = {name: known_y(result) for name, result in results.items()}
        name, has = min(((name, has) for name, has in there.items() if y not in has), key=lambda one: bool(one[1]))
        only = f"only {', '.join(map(repr, has))}" if has else "no variable by evaluation"
        raise ValueError(f"y must be a variable of all results, got {y!r}, and {name!r} has {only}")
    if {*common} <= {"seconds", "loss"} and y not in common:
        there = " or ".join(map(repr, common))
        raise ValueError(f"y must be {there} of results without metrics, which evaluate= measures, got {y!r}")
    _validate.one_of(common, y=y)


def _deltas(results: Mapping[str, xr.Dataset]) -> str:
    return " or ".join(dict.fromkeys(f"{result.epsilon.attrs['delta']:g}" for result in results.values()))


def _label(name: str, point: str) -> str:
    return ", ".join(part for part in (name, point) if part)


def _drawn(lines: Mapping[str, Band], x: str) -> Figure:
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    size = 1.0
    if x == "bytes":
        size, unit = line_styles.byte_unit(max(np.nanmax(band.x, initial=0) for band in lines.values()))
        axes.set(xlabel=f"sent by a client so far ({unit})")
    for number, (label, band) in enumerate(lines.items()):
        runs = f" ({band.runs} seeds)" if band.runs > 1 else ""
        style = line_styles.line(number)
        axes.plot(band.x / size, band.y, label=label + runs, **style)
        if band.runs > 1:
            low, high = band.y - band.half_width, band.y + band.half_width
            axes.fill_between(band.x / size, low, high, color=style["color"], alpha=0.18, linewidth=0)
    if x == "epsilon":
        axes.set(xscale="log")
    line_styles.plain(axes)
    axes.legend(frameon=False, fontsize=9)
    return figure

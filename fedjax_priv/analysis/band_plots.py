"""Curves of runs with the interval over their seeds. A plain figure: it needs neither a display nor pyplot."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from fedjax_priv import _validate
from fedjax_priv.analysis import line_styles
from fedjax_priv.analysis.curve_bands import Band, bands, common_adversary, known_x, known_y

_WORDS = {"seconds": "seconds of simulation", "joules": "J spent by a client so far", "loss": "training loss"}


def curves(
    results: Mapping[str, xr.Dataset], x: str = "round", y: str = "accuracy", *, adversary: str | None = None
) -> Figure:
    """A variable against another one: a line for each point of a sweep, with Student's 95% interval over seeds.

    Args:
      results: name -> what `simulate` or `sweep` returned.
      x: as of `bands`. "epsilon" is on a logarithmic axis.
      y: as of `bands`.
      adversary: of "epsilon"; by default as of `bands`, of those who have a figure in all results.

    Returns:
      One panel. `figure.savefig("curves.svg")` writes it; `.pdf` is a vector image, too.

    Raises:
      ValueError: there is no result by name, or one of them has no such variable or adversary; or they have no run
        with an evaluation.

    Examples:
      >>> curves({"FedAvg": grid}, x="bytes").savefig("bytes.svg")  # doctest: +SKIP
    """
    _validate.named_results(results)
    for what, chosen, known in (("x", x, known_x), ("y", y, known_y)):
        common = [
            name for name in known(next(iter(results.values()))) if all(name in known(r) for r in results.values())
        ]
        _validate.one_of(common, **{what: chosen})
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
    axes.set(ylabel=_WORDS.get(y, y), **({} if x == "bytes" else {"xlabel": words}))
    return figure


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

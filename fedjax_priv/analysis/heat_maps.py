"""A heat map of two axes of a sweep, such as rules and attacks."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedjax_priv import _validate
from fedjax_priv.analysis.curve_bands import known_y, last_means

_DARK = 0.5  # below this brightness, white letters are easier to read than black ones


def heat_map(result: xr.Dataset, rows: str, columns: str, y: str = "accuracy") -> Figure:
    """Draws a variable at the last evaluation, the mean over seeds, for each pair of values of two axes.

    Args:
      result: of `sweep`. If it has more axes than `rows`, `columns` and "seed", choose one value of each, such as
        `result.sel(ratio=0.1)`.
      rows: an axis, such as "rule".
      columns: another axis, such as "attack".
      y: as in `bands`.

    Returns:
      One panel with a number in each cell: "nan" if a run diverged, no number if none was run.

    Raises:
      ValueError: the result has other axes than `rows`, `columns` and "seed", or no such variable.

    Examples:
      >>> heat_map(grid, rows="rule", columns="attack").savefig("map.svg")  # doctest: +SKIP
    """
    _validate.part(xr.Dataset, "sweep(...)", result=result)
    _validate.one_of(known_y(result), y=y)
    means = last_means(result, y)
    swept = [str(name) for name in means.y.dims]
    if sorted((rows, columns)) != sorted(swept):
        raise ValueError(
            f"rows and columns must be the axes of result but 'seed', here {swept}, got {rows!r} and {columns!r}; "
            "choose a value of any other axis by result.sel(...)"
        )
    means = means.transpose(rows, columns)
    down, across = means.y.shape
    figure = Figure(figsize=(2.2 + 0.9 * across, 1.6 + 0.45 * down), layout="constrained")
    axes = figure.subplots()
    cells = axes.pcolormesh(np.ma.masked_invalid(means.y.values), cmap="cividis", edgecolors="white", linewidth=1)
    _write(axes, means, cells.to_rgba(means.y.values))
    for ticks, labels, name in ((axes.set_xticks, columns, "x"), (axes.set_yticks, rows, "y")):
        ticks(np.arange(means.sizes[labels]) + 0.5, [str(label) for label in means[labels].values])
        axes.set(**{f"{name}label": labels})
    axes.tick_params(length=0)
    axes.tick_params(axis="x", rotation=30 if max(len(str(label)) for label in means[columns].values) > 6 else 0)
    axes.spines[:].set_visible(False)
    axes.invert_yaxis()
    seeds = f", mean of {result.sizes['seed']} seeds" if result.sizes.get("seed", 1) > 1 else ""
    figure.colorbar(cells, label=f"{y}, last evaluation{seeds}")
    return figure


def _write(axes: Axes, means: xr.Dataset, colours: np.ndarray) -> None:
    """Writes the number into each cell that was run, in black or white, whichever the cell's colour needs."""
    brightness = colours[..., :3] @ np.array([0.299, 0.587, 0.114])
    for (i, j), value in np.ndenumerate(means.y.values):
        if means.runs.values[i, j]:
            colour = "white" if np.isfinite(value) and brightness[i, j] < _DARK else "black"
            axes.text(j + 0.5, i + 0.5, f"{value:.3g}", ha="center", va="center", fontsize=9, color=colour)

"""The atlas on one page: what can I have together?"""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from experiments.atlas.measures import NOT_RUN, cells
from experiments.atlas.stacks import Cell, choices
from fedjax_priv.analysis import line_styles

SCALE = TwoSlopeNorm(0.0, -1.0, 0.1)
COLOURS = mpl.colormaps["RdBu"]
PRIVATE = 8.0
"""eps up to which a corner is black."""
_GREY, _PALE = "#d9d9d9", "#f6f6f6"
LEGEND = (
    "Colour: worst accuracy minus that of the mean without attack. Stripes of a cell, from above: dropout "
    "0, 0.1, 0.3. Letter: refused, see below. Number: accuracy in % under the worst attack.",
    "Ring: not testable here (no attack costs the mean 10 points). Pale: possible, not run. Black corner: proved "
    "eps <= 8 for all rounds; grey corner: some eps, above 8; half corner: of values, not proposals (p).",
)


def picture(data: xr.Dataset) -> Figure:
    """The grid, the reasons of refusals and the margins."""
    figure = Figure(figsize=(17, 16.5), layout="constrained")
    top, grid = figure.subplots(2, 1, height_ratios=[1, 17])
    axes = choices()
    columns = [(rule, noise) for rule in axes["rule"] for noise in axes["noise"]]
    rows = [(transport, short) for transport in axes["transport"] for short in axes["compression"]]
    grid.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    for cell, row in cells(data):
        at = columns.index((cell.rule, cell.noise)), rows.index((cell.transport, cell.compression))
        _stripe(grid, at, axes["dropout"].index(cell.dropout), row)
    _frame(grid, columns, rows, _bytes_of(data, rows))
    _best(top, data, axes["rule"])
    bar = figure.colorbar(ScalarMappable(SCALE, COLOURS), ax=grid, fraction=0.02, pad=0.01)
    bar.set_ticks([-1, -0.5, 0, 0.1])
    bar.set_label("accuracy under the worst attack - the mean without attack")
    figure.supxlabel("\n".join([*LEGEND, _reasons(data)]), fontsize=9, x=0.02, ha="left")
    return figure


def _stripe(axes: Axes, at: tuple[int, int], stripe: int, row: dict[str, Any]) -> None:
    """One dropout of a cell."""
    x, y, height = at[0], at[1] + stripe / 3, 1 / 3
    run = row["code"] == "" and np.isfinite(row["honest"])
    tested = run and row["attack"] != ""
    colour: Any = _GREY if row["code"] not in ("", NOT_RUN) else _PALE
    colour = COLOURS(SCALE(row["worst"] - row["mean"])) if tested else "white" if run else colour
    axes.add_patch(Rectangle((x, y), 1, height, facecolor=colour, edgecolor="white", linewidth=0.4))
    if row["code"] not in ("", NOT_RUN):
        axes.text(x + 0.5, y + height / 2, row["code"], ha="center", va="center", fontsize=5.5, color="#777777")
    elif tested:
        dark = row["worst"] - row["mean"] < -0.55
        axes.text(x + 0.5, y + height / 2, f"{100 * row['worst']:.0f}", ha="center", va="center", fontsize=6,
                  color="white" if dark else "black")  # fmt: skip
    elif run:
        axes.plot(x + 0.5, y + height / 2, "o", ms=4, mfc="none", mec="#777777", mew=0.7)
    if run:
        _corner(axes, x, y, row)


def _corner(axes: Axes, x: float, y: float, row: dict[str, Any]) -> None:
    """What eps is proved."""
    half = "p" in row["marks"]
    if not half and not np.isfinite(row["epsilon"]):
        return
    size = 0.11 if half else 0.2
    colour = "black" if row["epsilon"] <= PRIVATE else "#888888"
    axes.add_patch(Polygon([(x, y), (x + size, y), (x, y + size)], facecolor=colour, linewidth=0))


def _frame(axes: Axes, columns: Sequence, rows: Sequence, size: dict[tuple[str, str], float]) -> None:
    """Names of rules and noises above, of transports and compressions to the left."""
    axes.set_xticks(np.arange(len(columns)) + 0.5, [noise for _, noise in columns], rotation=90, fontsize=7)
    known = lambda row: f", {size[row]:.2g} kB" if np.isfinite(size.get(row, np.nan)) else ""
    names = [f"{short}{known((transport, short))}" for transport, short in rows]
    axes.set_yticks(np.arange(len(rows)) + 0.5, names, fontsize=8)
    axes.tick_params(length=0)
    for i, (rule, _) in enumerate(columns[::3]):
        axes.text(3 * i + 1.5, -0.15, rule, ha="center", va="bottom", fontsize=9, weight="bold")
        axes.axvline(3 * i, color="black", linewidth=0.8)
    for i, (transport, _) in enumerate(rows[::5]):
        axes.text(-2.6, 5 * i + 2.5, transport, rotation=90, ha="center", va="center", fontsize=10, weight="bold")
        axes.axhline(5 * i, color="black", linewidth=0.8)


def _best(axes: Axes, data: xr.Dataset, rules: Sequence[str]) -> None:
    """The best cell of each rule under the worst attack."""
    worst = {rule: [row["worst"] for cell, row in cells(data) if cell.rule == rule] for rule in rules}
    heights = [max((value for value in values if np.isfinite(value)), default=0.0) for values in worst.values()]
    axes.bar(3 * np.arange(len(rules)) + 1.5, heights, width=2.4, color=line_styles.COLOURS[0])
    axes.set(xlim=(0, 3 * len(rules)), ylim=(0, 1), xticks=[], ylabel="best cell")
    axes.set_title("What composes: accuracy under the worst attack, by stack", fontsize=12)


def _bytes_of(data: xr.Dataset, rows: Sequence[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Kilobytes up a client and round, without dropouts, of the cheapest noise."""
    found: dict[tuple[str, str], float] = {}
    for cell, row in cells(data):
        if cell.dropout == 0 and np.isfinite(row["up"]):
            key = cell.transport, cell.compression
            found[key] = min(found.get(key, np.inf), row["up"])
    return found


def _reasons(data: xr.Dataset) -> str:
    """Letters of refusals with the sentence of one stack each, as `why_not` says it."""
    said: dict[str, str] = {}
    for _, row in cells(data):
        if row["code"] not in ("", NOT_RUN):
            said.setdefault(row["code"], row["why"])
    return "\n".join(f"{code}: {said[code]}" for code in sorted(said))


def pareto(data: xr.Dataset) -> list[tuple[Cell, dict[str, Any]]]:
    """Cells that no other beats in worst accuracy, bytes and eps at once; without a proved eps it is infinite."""
    tested = [(cell, row) for cell, row in cells(data) if np.isfinite(row["worst"])]
    point = lambda row: (-row["worst"], row["up"], row["epsilon"] if np.isfinite(row["epsilon"]) else np.inf)
    points = [point(row) for _, row in tested]
    beaten = lambda one: any(other != one and all(np.less_equal(other, one)) for other in points)
    return [pair for pair, one in zip(tested, points, strict=True) if not beaten(one)]

"""How lines look in every picture of results."""

from typing import Any

from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colours of Okabe and Ito (2008), which colour-blind readers can tell apart, without black and yellow."""
# Dashes and markers help in grey.
_DASHES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def line(number: int) -> dict[str, Any]:
    """Matplotlib options of a picture's line with this number; 72 lines differ in colour, dashes or marker."""
    twelves = number // 12  # colours and dashes together repeat after 12 lines
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "marker": _MARKERS[(number + twelves) % len(_MARKERS)],
        "markevery": (number % 12 * 0.03, 0.15),
        "markersize": 5,
        "linewidth": 1.8,
        "alpha": 0.9,
    }


def byte_unit(largest: float) -> tuple[float, str]:
    """The size in bytes and the name of the unit that makes `largest` a short number."""
    return next((unit for unit in _UNITS if largest >= unit[0]), _UNITS[-1])


def plain(axes: Axes, *, grid: bool = True) -> None:
    """Removes the frame at the top and on the right; draws a grid if `grid`."""
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(alpha=0.3)

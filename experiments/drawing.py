"""Lines of runs: their mean over seeds, and a band for how sure it is."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from experiments.comparison import over_seeds
from fedjax_priv.analysis.line_styles import COLOURS

BANDS = (
    "lines are means over seeds, bands their 95% intervals (Student's t), cut at 0 and 1, of percentages at 100, of "
    "larger values at twice a line's largest mean"
)


def colours_of(lines: Sequence, *, shaded: bool | None = None) -> dict:
    """A colour for each line, shaded in order if asked, or if all lines are numbers or there are too many."""
    lines = list(lines)
    if shaded is None:
        shaded = len(lines) > len(COLOURS) or all(map(is_number, lines))
    if shaded:
        return dict(zip(lines, matplotlib.colormaps["viridis"](np.linspace(0, 0.92, len(lines))), strict=True))
    return dict(zip(lines, COLOURS, strict=False))


def is_number(line: Any) -> bool:
    return isinstance(line, float | np.floating)


def label_of(line: Any) -> str:
    return f"{line:g}" if is_number(line) else str(line)


def band(
    axes: Axes, runs: xr.DataArray, along: str, label: str, colour: Any, style: str = "-", most: float | None = None
) -> None:
    """The mean over `seed` as a line over the dimension `along`, and its 95% interval, if seeds are several.

    Values are not negative. Two seeds may say nothing, so an interval is cut at 0 and at `most`: by default 1 if no
    value is larger, as of accuracies, else twice the largest mean.
    """
    mean, noise = over_seeds(runs)
    if most is None:
        most = 1.0 if float(runs.max()) <= 1 else 2 * float(mean.max())
    axes.plot(runs[along], mean, style, color=colour, linewidth=1.5, label=label)
    low, high = (mean - noise).clip(min=0), (mean + noise).clip(max=most)
    axes.fill_between(runs[along], low, high, where=np.isfinite(noise), color=colour, alpha=0.18, linewidth=0)


def plain(axes: Axes) -> None:
    """A grid behind what is drawn, and no frame at the top and on the right."""
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def finish(
    axes: Axes, title: str, *, size: float = 9, legend: Mapping[str, Any] = MappingProxyType({}), **given
) -> None:
    """Title, legend without a frame if a line has a label, and `plain`; `given` is what `Axes.set` takes."""
    axes.set(**given)
    axes.set_title(title, fontsize=10)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=size, **legend)
    plain(axes)

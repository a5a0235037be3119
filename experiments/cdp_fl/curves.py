"""How the figures are drawn, and when one accuracy is above another."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import harness
from experiments.cdp_fl.problem import Setting
from experiments.cdp_fl.training import ELIDED

CLEAR = 0.01
"""A difference of accuracies is clear above a point, unless it is noise."""
NAMES = {"accuracy": "test accuracy", "training_loss": "training loss", "gradient_norm": "gradient norm"}


class Gap(NamedTuple):
    """By how much one value is above another; runs of a seed start alike, and differences are taken seed by seed."""

    mean: xr.DataArray
    noise: xr.DataArray  # two standard errors; 0 of a single seed

    @property
    def real(self) -> xr.DataArray:
        """Above, and not by chance."""
        return self.mean > self.noise

    @property
    def clear(self) -> xr.DataArray:
        """And by more than a point of accuracy."""
        return self.real & (self.mean > CLEAR)

    def text(self, scale: float = 100) -> str:
        """In points of accuracy, unless scaled otherwise."""
        return f"{scale * float(self.mean):+.3g} +- {scale * float(self.noise):.2g}"


def gap(one: xr.DataArray, other: xr.DataArray) -> Gap:
    """Of values with the dimension `seed`."""
    apart = one - other
    return Gap(apart.mean("seed"), harness.two_errors(apart, "seed"))


def caveats(setting: Setting, failed: int, said: Sequence[str]) -> list[str]:
    """What is true of every figure, with what is said of one."""
    return [
        f"{setting.dataset}, {setting.model}; {setting.num_devices} devices with {setting.num_train:,} training and "
        f"{setting.num_test} test rows, r = {setting.num_selected}, eta = {setting.rate:g}, G = {setting.clip:g}, "
        f"delta = {setting.delta:g}; {setting.repeats} repeat(s)",
        *said, ELIDED,
        "lines are means over repeats, bands their range; noise is two standard errors over repeats, of one split and "
        "one schedule",
        f"{failed} rounds of all runs failed and left the model as it was",
    ]  # fmt: skip


def draw(panels: Mapping[str, xr.Dataset], metrics: Sequence[str], title: str, legend: str | None = None) -> Figure:
    """A row for each metric, a column for each panel, a curve for each `line` over `x`."""
    wide, high = len(panels), len(metrics)
    picture = Figure(figsize=(3.0 + 2.3 * wide, 1.0 + 2.1 * high), layout="constrained")
    axes = picture.subplots(high, wide, sharex="col", sharey="row", squeeze=False)
    for column, (name, values) in enumerate(panels.items()):
        colours = colours_of(list(values.line.values))
        for metric, place in zip(metrics, axes[:, column], strict=True):
            curves(place, values[metric], colours)
            if metric == "training_loss":
                place.set_yscale("log")
        axes[0, column].set_title(name, fontsize=9)
        axes[-1, column].set_xlabel(values.x.attrs.get("long_name", "round"))
    for metric, place in zip(metrics, axes[:, 0], strict=True):
        place.set_ylabel(NAMES[metric])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8, title=legend)
    picture.suptitle(textwrap.fill(title, 12 * round(picture.get_figwidth())), fontsize=9)
    return picture


def colours_of(lines: list) -> dict:
    """Numbers are shaded in order."""
    if all(isinstance(line, float | np.floating) for line in lines):
        return dict(zip(lines, matplotlib.colormaps["viridis"](np.linspace(0, 0.92, len(lines))), strict=True))
    return dict(zip(lines, harness.COLOURS, strict=False))


def curves(axes: Axes, values: xr.DataArray, colours: dict) -> None:
    """Every other one of named lines is dashed, since lines may coincide."""
    for number, (line, colour) in enumerate(colours.items()):
        of, shaded = values.sel(line=line), isinstance(line, float | np.floating)
        label, style = (f"{line:g}", "-") if shaded else (str(line), ("-", "--")[number % 2])
        axes.plot(of.x, of.mean("seed"), style, color=colour, linewidth=1.4, label=label)
        axes.fill_between(of.x, of.min("seed"), of.max("seed"), color=colour, alpha=0.18, linewidth=0)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)

"""Accuracy by iteration, drawn and compared."""

from typing import NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from experiments.harness import COLOURS


class Gap(NamedTuple):
    """By how much the last accuracy of one is above that of another."""

    points: float  # of 100, the mean over seeds
    noise: float  # two standard errors of it; 0 for a single seed

    @property
    def clear(self) -> bool:
        """Above, and not by chance."""
        return self.points > self.noise

    def __str__(self) -> str:
        return f"{self.points:+.1f}" + (f" +- {self.noise:.1f}" if self.noise else "")


def gap(one: xr.DataArray, other: xr.DataArray) -> Gap:
    """Of accuracies `[seed, iteration]`; runs of a seed start alike."""
    values = 100 * (last(one) - last(other)).values
    return Gap(values.mean(), 2 * values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else 0.0)


def last(accuracy: xr.DataArray) -> xr.DataArray:
    """At the last iteration that there is."""
    return accuracy.dropna("iteration", how="all").isel(iteration=-1, drop=True)


def draw(axes: Axes, accuracy: xr.DataArray, title: str, *, shaded: bool = False) -> None:
    """Mean over seeds and the range of them; accuracies `[line, seed, iteration]`, lines shaded in order if asked."""
    lines = accuracy.line.values
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(lines))) if shaded else COLOURS
    for colour, line in zip(colours, lines, strict=False):
        runs = accuracy.sel(line=line).dropna("iteration", how="all")
        axes.plot(runs.iteration, runs.mean("seed"), color=colour, linewidth=1.6, label=str(line))
        axes.fill_between(runs.iteration, runs.min("seed"), runs.max("seed"), color=colour, alpha=0.18, linewidth=0)
    axes.set(xlabel="iteration", ylabel="test accuracy")
    axes.set_title(title, fontsize=10)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    plain(axes)


def plain(axes: Axes) -> None:
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)

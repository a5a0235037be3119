"""Accuracy by iteration, compared and drawn."""

import xarray as xr
from matplotlib.axes import Axes

from experiments.comparison import Gap, gap, last
from experiments.drawing import band, colours_of, finish, label_of


def ahead(one: xr.DataArray, other: xr.DataArray) -> Gap:
    """By how much the last of one run's accuracies `[seed, iteration]` is above the other's."""
    return gap(last(one, "iteration"), last(other, "iteration"))


def draw(axes: Axes, accuracy: xr.DataArray, title: str, legend: str | None = None) -> None:
    """A line with a band for each `line` of accuracies `[line, seed, iteration]`; `legend` is its title."""
    for line, colour in colours_of(accuracy.line.values).items():
        runs = accuracy.sel(line=line).dropna("iteration", how="all")
        band(axes, runs, "iteration", label_of(line), colour)
    where = {"loc": "lower right", "title": legend}
    finish(axes, title, legend=where, xlabel="iteration", ylabel="test accuracy")

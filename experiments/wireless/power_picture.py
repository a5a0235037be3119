"""The picture of the three forms of power control."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.comparison import last
from experiments.drawing import finish
from fedjax_priv.analysis.line_styles import COLOURS


def figure(config: Any, result: xr.Dataset) -> Figure:
    """Accuracy, who is heard, energy and eps by sigma^2."""
    picture = Figure(figsize=(11, 7.4), layout="constrained")
    accuracy, heard, energy, eps = picture.subplots(2, 2).ravel()
    colours = dict(zip(result.control.values, COLOURS, strict=False))
    _accuracies(accuracy, config, result, colours)
    _by_group(heard, config, result.heard, colours, "heard, of the amplitude without a limit")
    _by_group(energy, config, result.energy, colours, "mean energy of a channel use / N0")
    _leakages(eps, config, result, colours)
    return picture


def _cases(config: Any) -> list[str]:
    return [f"sigma^2 = {v:g}" for v in config.noise_variances]


def _accuracies(axes: Axes, config: Any, result: xr.Dataset, colours: dict) -> None:
    runs, x = last(result.accuracy, "iteration").sel(case=_cases(config)), np.arange(len(config.noise_variances))
    for shift, (control, colour) in zip((-0.08, 0, 0.08), colours.items(), strict=True):
        for partition, mark in zip(result.partition.values, ("o-", "s--"), strict=True):
            values = runs.sel(control=control, partition=partition).transpose("case", "seed").values
            axes.plot(x + shift, values.mean(1), mark, color=colour, markersize=4, label=f"{control}, {partition}")
            axes.plot(np.tile(x[:, None] + shift, values.shape[1]), values, ".", color=colour, markersize=2)
    about = f"{config.setting.task}, K = {config.setting.num_users}, T = {config.rounds:,}"
    finish(axes, about, legend={"ncols": 2}, ylabel="test accuracy at the end", size=7)
    axes.set_xticks(x, _cases(config))


def _by_group(axes: Axes, config: Any, values: xr.DataArray, colours: dict, label: str) -> None:
    mean, x = values.sel(case=_cases(config)).mean(["seed", "partition"]), np.arange(len(config.noise_variances))
    for control, colour in colours.items():
        for snr, style in zip(config.setting.snr_db, ("-", "--", ":"), strict=False):
            line = mean.sel(control=control, group=snr)
            axes.plot(x, line, style, marker="o", markersize=3, color=colour, label=f"{control}, {snr:g} dB")
    finish(axes, "by form and group of users", legend={"ncols": 3}, ylabel=label, ylim=(0, None), size=7)
    axes.set_xticks(x, _cases(config))


def _leakages(axes: Axes, config: Any, result: xr.Dataset, colours: dict) -> None:
    x = np.arange(len(config.noise_variances))
    for control in ("bound", "signal"):
        axes.plot(x, result.eps.sel(control=control, case=_cases(config)), "o-", color=colours[control], label=control)
    axes.plot(x, result.aligned.sel(case=_cases(config)), ":", color="black", label="no limit")
    axes.plot([], [], color=colours["gradient"], label="gradient: none")
    finish(axes, "exact figure of all rounds, replacement", ylabel="eps", yscale="log", size=8)
    axes.set_xticks(x, _cases(config))

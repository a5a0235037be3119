"""The picture of analog, one-bit and digital uploads: accuracy by uses, seconds and joules, and closed forms."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import band, colours_of, finish
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.theory import digital_links as theory


def figure(config: Any, result: xr.Dataset, level: float) -> Figure:
    """Three panels."""
    picture = Figure(figsize=(13, 4.6), layout="constrained")
    by_uses, by_joules, closed = picture.subplots(1, 3)
    _accuracy(by_uses, result, "uses")
    seconds = 1 / (2 * config.hertz)
    above = by_uses.secondary_xaxis("top", functions=(lambda uses: uses * seconds, lambda time: time / seconds))
    above.set_xlabel(f"seconds on the air, {config.hertz / 1e6:g} MHz", fontsize=9)
    finish(by_uses, "", xscale="log", xlabel="uses of the channel, all users", ylabel="test accuracy")
    _accuracy(by_joules, result, "joules")
    title = f"the energy of a user, {config.path_loss_db:g} dB of path loss"
    finish(by_joules, title, legend={"loc": "lower right"}, xlabel="joules of a user", ylabel="test accuracy")
    _distortions(closed, config.users, config.energy, level)
    return picture


def _accuracy(axes: Axes, result: xr.Dataset, what: str) -> None:
    """A line for each scheme, against what it has spent so far."""
    for line, colour in colours_of(result.line.values, shaded=False).items():
        of = result.sel(line=line)
        runs = of.accuracy.sel(iteration=of.iteration > 0)
        spent = runs.iteration * of[what].item()
        along = runs.assign_coords(spent=("iteration", spent.values)).swap_dims(iteration="spent")
        band(axes, along, "spent", str(line), colour)


def _distortions(axes: Axes, users: int, energy: float, level: float) -> None:
    """Closed forms at a fixed energy, by the uses of the channel."""
    times = np.geomspace(1, 1000, 200)
    for number, style in ((users, "-"), (1, "--")):
        of = f"{number} users" if number > 1 else "1 user"
        analog = theory.analog_distortion(1.0, number, energy, 1.0)
        bound = theory.digital_distortion(1.0, times, number, energy, 1.0)
        axes.plot(times, np.full_like(times, analog), style, color=COLOURS[0], label=f"analog, {of}")
        axes.plot(times, bound, style, color=COLOURS[2], label=f"digital, at least, {of}")
    axes.axvline(level, color="grey", linewidth=0.8)
    axes.annotate(f"{level:g} d", (level, 2e-2), rotation=90, fontsize=8, color="grey", ha="right")
    finish(
        axes, "error of the mean at a fixed energy, closed forms", size=8, legend={"loc": "lower left"}, xscale="log",
        yscale="log", xlabel="uses of the channel / d", ylabel="relative error",
    )  # fmt: skip

"""How the figures are drawn, and how accuracies are compared under each attack."""

import textwrap
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple, cast

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.fedrep.methods import ALIE
from experiments.fedrep.training import ELIDED, Config, Setting
from experiments.harness import COLOURS, Claim, two_errors

CLEAR, SMALL = 0.01, 0.02
"""A difference of accuracies is clear above the one and small below the other, give or take the noise."""
POINTS = "points of accuracy at the end (best over epochs in brackets)"


class Gap(NamedTuple):
    """By how much one accuracy is above another, means over seeds; with a dimension `attack`, maybe others."""

    last: xr.DataArray
    best: xr.DataArray
    noise: xr.DataArray  # two standard errors of `last`; 0 for a single seed

    @property
    def clear(self) -> xr.DataArray:
        """Above, and not by chance."""
        return self.last > np.maximum(CLEAR, self.noise)

    @property
    def small(self) -> xr.DataArray:
        """Alike, so far as noise lets it be told."""
        return abs(self.last) <= SMALL + np.minimum(self.noise, SMALL)

    @property
    def not_below(self) -> xr.DataArray:
        """Above, or below by a little."""
        return self.last >= -(SMALL + np.minimum(self.noise, SMALL))


def gap(one: xr.DataArray, other: xr.DataArray) -> Gap:
    """Of accuracies with the dimensions `seed` and `epoch`; runs of a seed start alike."""
    ends = [accuracy.isel(epoch=-1, drop=True) for accuracy in (one, other)]
    bests = [accuracy.max("epoch").mean("seed") for accuracy in (one, other)]
    last = ends[0] - ends[1]
    noise = two_errors(last, "seed")
    pooled = (noise**2).mean([dim for dim in noise.dims if dim != "attack"]) ** 0.5
    return Gap(last.mean("seed"), bests[0] - bests[1], pooled.broadcast_like(noise))


def beside(gaps: Mapping[str, Gap]) -> Gap:
    """Several, by `curve`."""
    names = xr.Variable("curve", list(gaps))
    return Gap(*(cast(xr.DataArray, xr.concat(parts, names)) for parts in zip(*gaps.values(), strict=True)))


def claim(text: str, paper: str, found: Gap, holds: xr.DataArray, rule: str) -> Claim:
    """A claim that is true if it holds under every attack; of other dimensions the farthest value is shown."""
    others = [dim for dim in holds.dims if dim != "attack"]
    held = holds.all(others)
    failed = [str(name) for name in held.attack.values if not held.sel(attack=name)]
    ours = ", ".join(
        f"{name} {_farthest(found.last.sel(attack=name)):+.1f} ({_farthest(found.best.sel(attack=name)):+.1f})"
        for name in held.attack.values
    )
    note = [f"{POINTS}; verdict: {rule}, noise up to {100 * float(found.noise.max()):.1f}"]
    note += [f"does not hold under {' and '.join(failed)}"] if failed else []
    note += [f"holds under all attacks for {dim}: {_list(_kept(holds, dim)) or 'none'}" for dim in others if failed]
    if len(set(ALIE) & set(failed)) == 1 and set(ALIE) <= {*held.attack.values}:
        note.append("it hangs on z, which the paper does not give")
    return Claim(text, paper, ours, not failed, "; ".join(note))


def _kept(holds: xr.DataArray, dim: Hashable) -> np.ndarray:
    return holds[dim].values[holds.all([other for other in holds.dims if other != dim]).values]


def _farthest(values: xr.DataArray) -> float:
    flat = 100 * values.values.ravel()
    return float(flat[np.abs(flat).argmax()])


def describe(setting: Setting, d: int) -> str:
    pixels = f", {setting.pool} x {setting.pool} pixels averaged" if setting.pool > 1 else ""
    samples = f", {setting.samples:,} training samples" if setting.samples else ""
    return (
        f"{setting.dataset}{pixels}{samples}; {setting.model}, d = {d:,}; {setting.num_clients} clients, "
        f"{setting.epochs} epochs; {setting.repeats} seed(s)"
    )


def caveats(config: Config, result: xr.Dataset) -> list[str]:
    tried = lambda name: result.end.sel(curve=name).dropna("tried", how="all").tried.values
    rates = "; ".join(
        f"{name} {_list(result.rate.sel(curve=name).values)} of {_list(tried(name))}" for name in result.curve.values
    )
    return [
        describe(config.setting, result.num_params), ELIDED,
        "lines are means over seeds, bands their range; accuracy is on the test set, the last epoch is judged",
        f"learning rate of each method, best at the end in the mean over attacks and seeds: {rates}",
        f"{int(result.failed.sum())} rounds of all runs failed and left the model as it was",
    ]  # fmt: skip


def _list(values: np.ndarray) -> str:
    return ", ".join(map(_text, values.ravel()))


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def draw(accuracy: xr.DataArray, title: str, legend: str | None = None) -> Figure:
    """A panel for each `attack` (and `row`, if there are), a curve for each `line`."""
    rows = accuracy if "row" in accuracy.dims else accuracy.expand_dims(row=[""])
    high, wide = rows.sizes["row"], rows.sizes["attack"]
    picture = Figure(figsize=(1.4 + 2.0 * wide, 1.1 + 1.7 * high), layout="constrained")
    panels = picture.subplots(high, wide, sharex=True, sharey=True, squeeze=False)
    colours = _colours(rows.line.values)
    for row, line_of in zip(rows.row.values, panels, strict=True):
        for attack, axes in zip(rows.attack.values, line_of, strict=True):
            _panel(axes, rows.sel(row=row, attack=attack), colours)
            axes.set_title(f"{row}{': ' if str(row) else ''}{attack}", fontsize=9)
    for axes in panels[-1]:
        axes.set_xlabel("epoch")
    for axes in panels[:, 0]:
        axes.set_ylabel("test accuracy")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9, title=legend)
    picture.suptitle(textwrap.fill(title, 13 * round(picture.get_figwidth())), fontsize=10)
    return picture


def _colours(lines: Iterable) -> dict:
    """Numbers are shaded in order."""
    lines = list(lines)
    if len(lines) > len(COLOURS) or all(isinstance(line, float | np.floating) for line in lines):
        return dict(zip(lines, matplotlib.colormaps["viridis"](np.linspace(0, 0.92, len(lines))), strict=True))
    return dict(zip(lines, COLOURS, strict=False))


def _panel(axes: Axes, runs: xr.DataArray, colours: dict) -> None:
    for line, colour in colours.items():
        of = runs.sel(line=line)
        axes.plot(of.epoch, of.mean("seed"), color=colour, linewidth=1.5, label=_text(line))
        axes.fill_between(of.epoch, of.min("seed"), of.max("seed"), color=colour, alpha=0.18, linewidth=0)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)

"""How the figures are drawn, and how accuracies are compared under each attack and at equal cost."""

import textwrap
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments.claims import Claim, Open, Source, joined
from experiments.comparison import Gap, decided, gap, plus_minus
from experiments.drawing import BANDS, band, colours_of, label_of, plain
from experiments.fedrep import control
from experiments.fedrep.methods import ALIE
from experiments.fedrep.training import ELIDED, Config

POINTS = "points of accuracy at the end (best over epochs in brackets)"
HANGS_ON_Z = "it hangs on z, which the paper does not give"


class Compared(NamedTuple):
    """By how much one accuracy is above another; with a dimension `attack`, maybe others."""

    gap: Gap  # at the last epoch
    best: xr.DataArray  # of the best epochs

    def sel(self, **places) -> "Compared":
        """A part of it, as `DataArray.sel` selects."""
        return Compared(self.gap.sel(**places), self.best.sel(**places))


def compared(one: xr.DataArray, other: xr.DataArray) -> Compared:
    """Of accuracies with the dimensions `seed` and `epoch`; runs of a seed start alike."""
    ends = gap(*(accuracy.isel(epoch=-1, drop=True) for accuracy in (one, other)))
    bests = [accuracy.max("epoch").mean("seed") for accuracy in (one, other)]
    return Compared(ends, bests[0] - bests[1])


def ahead(result: xr.Dataset, ours: str, other: str, way: str) -> Compared:
    """FedREP's accuracy less another's, as `at_equal` reads them."""
    return compared(*at_equal(result, ours, other, way))


def at_equal(result: xr.Dataset, ours: str, other: str, way: str) -> tuple[xr.DataArray, xr.DataArray]:
    """Both accuracies by "iteration", or up to where both sent as many bytes, "up" or "both" ways."""
    pair = [result.sel(curve=name, drop=True) for name in (ours, other)]
    spent = [1.0 if way == "iteration" else float((of.up if way == "up" else of.up + of.down).mean()) for of in pair]
    one, two = (_until(of.accuracy, min(spent) / own) for of, own in zip(pair, spent, strict=True))
    return one, two


def _until(accuracy: xr.DataArray, fraction: float) -> xr.DataArray:
    """The part of a run that spent this fraction of its bytes, with as many evaluations."""
    epoch = accuracy.epoch
    return accuracy if fraction == 1 else accuracy.interp(epoch=epoch * fraction).assign_coords(epoch=epoch)


def claim(
    id: str, text: str, expected: str, found: Compared, holds: xr.DataArray, rule: str, more: str = "",
    source: Source = Source.PAPER, controlled_by: xr.Dataset | None = None,
) -> Claim:  # fmt: skip
    """A claim that is true if its answer is yes under every attack; of other dimensions the farthest value is shown.

    With the result that it is `controlled_by`, only attacks that bite are judged.
    """
    others = [dim for dim in holds.dims if dim != "attack"]
    held = holds.min(others)
    attacks = [str(name) for name in held.attack.values]
    judged = attacks if controlled_by is None else control.biting(controlled_by, attacks)
    failed = [name for name in judged if held.sel(attack=name) < 0]
    shown = ", ".join(
        f"{name} {_farthest(found.gap.mean.sel(attack=name)):+.1f} ({_farthest(found.best.sel(attack=name)):+.1f})"
        for name in attacks
    )
    note = [POINTS, more, f"noise {plus_minus(100 * float(found.gap.noise.max())).strip()} at most"]
    note += [f"not so under {' and '.join(failed)}"] if failed else []
    note += [f"so under all attacks for {dim}: {_kept(holds, dim)}" for dim in others if failed]
    if len(set(ALIE) & set(failed)) == 1 and set(ALIE) <= set(judged):
        note.append(HANGS_ON_Z)
    verdict = decided(held.sel(attack=judged)) if judged else None
    said = Claim(id, text, expected, shown, verdict, rule, joined(*note), source, Open.UNDECIDED)
    return said if controlled_by is None else control.controlled(controlled_by, said, attacks, judged)


def _kept(holds: xr.DataArray, dim: Hashable) -> str:
    return _list(holds[dim].values[(holds > 0).all([other for other in holds.dims if other != dim]).values]) or "none"


def _farthest(values: xr.DataArray) -> float:
    flat = 100 * values.values.ravel()
    return float(flat[np.abs(flat).argmax()])


def caveats(config: Config, result: xr.Dataset) -> list[str]:
    setting = config.setting
    tried = lambda name: result.end.sel(curve=name).dropna("tried", how="all").tried.values
    rates = "; ".join(
        f"{name} {_list(result.rate.sel(curve=name).values)} of {_list(tried(name))}" for name in result.curve.values
    )
    repeats = result.sizes["seed"]
    return [
        f"{setting.task}; {setting.num_clients} clients, {setting.epochs} epochs; {repeats} seed(s)", ELIDED,
        f"{BANDS}; accuracy is on the test set, the last epoch is judged",
        f"learning rate of each method, best at the end, averaged over attacks and seeds: {rates}",
        f"{int(result.failed.sum())} rounds of all runs failed and left the model unchanged",
    ]  # fmt: skip


def cost(result: xr.Dataset) -> str:
    """Measured: Gamma, and bytes of a client in an iteration."""
    means = {name: result[name].groupby("curve").mean(...) for name in ("gamma", "up", "down")}
    return "; ".join(
        "{}: Gamma {:.3f}, {:,.0f} B up, {:,.0f} B down".format(
            name, *(float(of.sel(curve=name)) for of in means.values())
        )
        for name in result.curve.values
    )


def _list(values: np.ndarray) -> str:
    return ", ".join(map(label_of, values.ravel()))


def draw(accuracy: xr.DataArray, title: str, legend: str | None = None) -> Figure:
    """A panel for each `attack` (and `row`, if there are), a curve for each `line`."""
    rows = accuracy if "row" in accuracy.dims else accuracy.expand_dims(row=[""])
    high, wide = rows.sizes["row"], rows.sizes["attack"]
    picture = Figure(figsize=(1.4 + 2.0 * wide, 1.1 + 1.7 * high), layout="constrained")
    panels = picture.subplots(high, wide, sharex=True, sharey=True, squeeze=False)
    for row, line_of in zip(rows.row.values, panels, strict=True):
        for attack, axes in zip(rows.attack.values, line_of, strict=True):
            for line, colour in colours_of(rows.line.values).items():
                band(axes, rows.sel(row=row, attack=attack, line=line), "epoch", label_of(line), colour)
            plain(axes)
            axes.set_title(f"{row}{': ' if str(row) else ''}{attack}", fontsize=9)
    for axes in panels[-1]:
        axes.set_xlabel("epoch")
    for axes in panels[:, 0]:
        axes.set_ylabel("test accuracy")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9, title=legend)
    picture.suptitle(textwrap.fill(title, 13 * round(picture.get_figwidth())), fontsize=10)
    return picture

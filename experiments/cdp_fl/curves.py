"""How the figures are drawn, and what all of them say about their runs."""

import textwrap
from collections.abc import Mapping, Sequence

import xarray as xr
from matplotlib.figure import Figure

from experiments.cdp_fl.problem import Setting
from experiments.cdp_fl.training import ELIDED
from experiments.drawing import BANDS, band, colours_of, is_number, label_of, plain

NAMES = {"accuracy": "test accuracy", "training_loss": "training loss", "gradient_norm": "gradient norm"}


def caveats(setting: Setting, result: xr.Dataset, more: Sequence[str]) -> list[str]:
    """The setting first, then `more`, then what holds for every figure."""
    return [
        f"{setting.dataset}, {setting.model}; {setting.num_devices} devices with {setting.num_train:,} training and "
        f"{setting.num_test} test rows, r = {setting.num_selected}, eta = {setting.rate:g}, G = {setting.clip:g}, "
        f"delta = {setting.delta:g}; {result.sizes['seed']} repeat(s)",
        *more, ELIDED,
        f"{BANDS}; of one split and one schedule",
        f"{int(result.failed.sum())} rounds of all runs failed and left the model unchanged",
    ]  # fmt: skip


def draw(panels: Mapping[str, xr.Dataset], metrics: Sequence[str], title: str, legend: str | None = None) -> Figure:
    """A row for each metric, a column for each panel, and a curve for each `line` over `x`."""
    wide, high = len(panels), len(metrics)
    picture = Figure(figsize=(3.0 + 2.3 * wide, 1.0 + 2.1 * high), layout="constrained")
    axes = picture.subplots(high, wide, sharex="col", sharey="row", squeeze=False)
    for column, (name, values) in enumerate(panels.items()):
        for metric, place in zip(metrics, axes[:, column], strict=True):
            for number, (line, colour) in enumerate(colours_of(values.line.values).items()):
                style = "-" if is_number(line) else ("-", "--")[number % 2]  # named lines may coincide
                band(place, values[metric].sel(line=line), "x", label_of(line), colour, style)
            if metric == "training_loss":
                place.set_yscale("log")
            plain(place)
        axes[0, column].set_title(name, fontsize=9)
        axes[-1, column].set_xlabel(values.x.attrs.get("long_name", "round"))
    for metric, place in zip(metrics, axes[:, 0], strict=True):
        place.set_ylabel(NAMES[metric])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8, title=legend)
    picture.suptitle(textwrap.fill(title, 12 * round(picture.get_figwidth())), fontsize=9)
    return picture

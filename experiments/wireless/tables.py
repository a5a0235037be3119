"""Channel-aware against uniform sampling: Fig. 4 with Table II, and Fig. 5 with Table III."""

from typing import cast

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from experiments.comparison import last
from experiments.drawing import BANDS
from experiments.harness import Outcome
from experiments.wireless import cells, curves, leakage, training
from experiments.wireless.printed import PARTICIPANTS
from experiments.wireless.table_config import Config, Panel
from experiments.wireless.training import THRESHOLD


def run(config: Config) -> Outcome:
    parts = _train(config)
    result = cast(xr.Dataset, xr.concat(parts, xr.Variable("panel", list(config.panels)), join="outer"))
    return judge(config, result.assign_attrs(parts[0].attrs))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """Figure and claims, from the data of a run."""
    found = [claim for name in config.panels for claim in cells.claims(config, name, result.sel(panel=name))]
    return Outcome(figure(config, result), result, found, caveats(config, result), table(config, result))


def _train(config: Config) -> list[xr.Dataset]:
    """By panel; panels of equally many rounds are one sweep."""
    lengths = dict.fromkeys(panel.rounds for panel in config.panels.values())
    together = {t: _all_columns(config, t, [p.clip for p in config.panels.values() if p.rounds == t]) for t in lengths}
    return [together[panel.rounds].sel(clip=panel.clip, drop=True) for panel in config.panels.values()]


def _all_columns(config: Config, rounds: int, clips: list[float]) -> xr.Dataset:
    """Channel-aware and uniform."""
    fixed = {"clip": clips, "noise_variance": [config.noise_variance]}
    train = lambda **sampling: _summary(
        config, training.run(config.setting, sampling | fixed, rounds=rounds, seed=config.seed)
    )
    aware = train(threshold=[THRESHOLD]).rename(threshold="sampling")
    uniform = train(participation=list(config.uniform)).rename(participation="sampling")
    both = cast(xr.Dataset, xr.concat([aware, uniform], "sampling"))
    return both.assign_coords(sampling=config.columns).assign_attrs(aware.attrs)


def _summary(config: Config, runs: xr.Dataset) -> xr.Dataset:
    """What is kept of runs."""
    runs = runs.squeeze("noise_variance", drop=True)
    return leakage.of_runs(runs.probability, config.noise_variance).assign(
        accuracy=runs.accuracy, participants=runs.counted.sum("client").mean("round"),
        limited=leakage.limited(runs, config.setting), failed=runs.failed,
    ).assign_attrs(runs.attrs)  # fmt: skip


def caveats(config: Config, result: xr.Dataset) -> list[str]:
    limited = result.limited.isel(group=0).sel(sampling=config.columns[1]).mean("seed")
    return [
        training.describe(config.setting),
        "T = " + ", ".join(f"{panel.rounds:,} ({name})" for name, panel in config.panels.items()),
        f"{BANDS}; leakage is the largest over users and iterations, averaged over seeds",
        "eps_l and eps_c hold at different deltas, both shown; delta' = 2 exp(-2 m^2/K) + 1e-5, delta_l = 1e-5",
        f"power limits {_list(100 * limited.values, '.2g%')} of what 2 dB users send (uniform p = "
        f"{config.uniform[0]:g}): no bound covers these users, neither the paper's nor the exact one, which assumes "
        "that all users are aligned",
        training.failures(result),
    ]


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(12, 4.4), layout="constrained")
    panels = picture.subplots(1, len(config.panels))
    for (name, panel), axes in zip(config.panels.items(), panels, strict=True):
        title = f"({name}) L = {panel.clip:g}, sigma^2 = {config.noise_variance:g}, T = {panel.rounds:,}"
        curves.draw(axes, result.sel(panel=name).accuracy.rename(sampling="line"), title)
    return picture


def table(config: Config, result: xr.Dataset) -> list[list[str]]:
    """The paper's table, panel after panel, with what is printed in brackets."""
    rows = [["", *config.columns]]
    for name, panel in config.panels.items():
        rows += [[f"({name}) {row[0]}", *row[1:]] for row in _of_panel(panel, result.sel(panel=name))]
    return rows


def _of_panel(panel: Panel, of: xr.Dataset) -> list[list[str]]:
    mean = of.drop_vars("accuracy").mean("seed")
    ends = 100 * last(of.accuracy, "iteration").mean("seed").values
    both = lambda ours, printed, how: [f"{x:{how}} ({said})" for x, said in zip(ours, printed, strict=True)]
    rows = {
        "participants (printed)": both(mean.participants.values, PARTICIPANTS, ".1f"),
        "accuracy, % (printed)": both(ends, panel.printed.accuracy, ".1f"),
        "eps_l, Lemma 2": mean.lemma.values,
        "eps_l with N0 (printed)": both(mean.local.values, panel.printed.local, ".4g"),
        "at delta": mean.local_delta.values,
        "eps_c, eq. 13 (printed)": both(mean.central.values, panel.printed.central, ".4g"),
        "eps_c, log(2A) + x": mean.printed.values,
        "eps_c, eq. 13, first iteration": mean.frozen.values,
        "at delta_c": mean.central_delta.values,
        "exact eps at delta_c": mean.rigorous.values,
        "2 dB users limited, %": 100 * mean.limited.isel(group=0).values,
    }
    return [[name, *(v if isinstance(v, str) else f"{v:.4g}" for v in row)] for name, row in rows.items()]


def _list(values: ArrayLike, how: str) -> str:
    number, unit = how.rstrip("%"), "%" if how.endswith("%") else ""
    return " / ".join(f"{value:{number}}{unit}" for value in np.ravel(values))

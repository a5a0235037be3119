"""Channel-aware against uniform sampling: Fig. 4 with Table II, and Fig. 5 with Table III."""

from typing import NamedTuple, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.claims import Claim
from experiments.harness import Outcome
from experiments.wireless import curves, leakage, training
from experiments.wireless.training import THRESHOLD, Setting

AWARE = "channel-aware"
USERS = 200
"""K of the paper's tables."""
NEAR = 2.0
"""Points of accuracy within which a figure is the paper's."""


class Panel(NamedTuple):
    """One of the two of a figure, and what its table prints, for channel-aware and the two uniform columns."""

    clip: float
    rounds: int
    accuracy: tuple[float, ...]  # printed, in per cent
    papers_rounds: int | None = None  # T of the paper, if it gives one


class Config(NamedTuple):
    """One figure and its table at one scale."""

    setting: Setting
    panels: dict[str, Panel]
    noise_variance: float
    participants: tuple[float, ...] = (96.0, 60.0, 180.0)  # printed
    uniform: tuple[float, ...] = (0.3, 0.9)
    seed: int = 0


def run(config: Config) -> Outcome:
    """Train, and set the tables up."""
    parts = _train(config)
    result = cast(xr.Dataset, xr.concat(parts, xr.Variable("panel", list(config.panels)), join="outer"))
    result = result.assign_attrs(parts[0].attrs)
    return Outcome(figure(config, result), result, claims(config, result), caveats(config, result))


def names(config: Config) -> list[str]:
    return [AWARE, *(f"uniform p = {p:g}" for p in config.uniform)]


def _train(config: Config) -> list[xr.Dataset]:
    """By panel; those of equally many rounds are one sweep."""
    lengths = dict.fromkeys(panel.rounds for panel in config.panels.values())
    together = {t: _both(config, t, [p.clip for p in config.panels.values() if p.rounds == t]) for t in lengths}
    return [together[panel.rounds].sel(clip=panel.clip, drop=True) for panel in config.panels.values()]


def _both(config: Config, rounds: int, clips: list[float]) -> xr.Dataset:
    """Channel-aware and uniform."""
    fixed = {"clip": clips, "noise_variance": [config.noise_variance]}
    train = lambda **sampling: _summary(
        config, training.run(config.setting, sampling | fixed, rounds=rounds, seed=config.seed)
    )
    aware = train(threshold=[THRESHOLD]).rename(threshold="sampling")
    uniform = train(participation=list(config.uniform)).rename(participation="sampling")
    both = cast(xr.Dataset, xr.concat([aware, uniform], "sampling"))
    return both.assign_coords(sampling=names(config)).assign_attrs(aware.attrs)


def _summary(config: Config, runs: xr.Dataset) -> xr.Dataset:
    """What is kept of runs, beside the axes by `seed`."""
    runs = runs.squeeze("noise_variance", drop=True)
    found = leakage.of_runs(runs.probability, config.noise_variance)
    limited = leakage.limited(runs, config.setting.groups).assign_coords(group=list(config.setting.snr_db))
    return found.assign(
        accuracy=runs.accuracy, participants=runs.counted.sum("client").mean("round"), limited=limited,
        failed=runs.failed,
    ).assign_attrs(runs.attrs)  # fmt: skip


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    """Of each panel."""
    said = []
    for name, panel in config.panels.items():
        of = result.sel(panel=name)
        said += [_participants(config, panel, name, of), _accuracy(config, panel, name, of), _order(config, name, of)]
        said.append(_growth(name, of))
    return said


def _participants(config: Config, panel: Panel, name: str, of: xr.Dataset) -> Claim:
    means = of.participants.mean("seed").values
    error = 4 * np.sqrt(config.setting.num_users / 4 / panel.rounds / config.setting.repeats)
    said = bool(np.all(np.abs(means - config.participants) < 0.5 + error)) if _is_papers(config) else None
    return Claim(
        f"{name}-participants",
        f"({name}) mean participants", " / ".join(f"{n:g}" for n in config.participants), _list(means, ".1f"), said,
        f"{', '.join(names(config))}; verdict: within half a user and 4 standard errors, {error:.2f}",
    )  # fmt: skip


def _accuracy(config: Config, panel: Panel, name: str, of: xr.Dataset) -> Claim:
    values = 100 * curves.last(of.accuracy).mean("seed").values
    off = np.abs(values - panel.accuracy)
    comparable = _is_papers(config) and panel.rounds == panel.papers_rounds
    return Claim(
        f"{name}-accuracy", f"({name}) test accuracy", " / ".join(f"{value}%" for value in panel.accuracy),
        _list(values, ".1f%"), bool((off <= NEAR).all()) if comparable else None,
        f"after {panel.rounds} iterations, L = {panel.clip:g}; verdict: all within {NEAR:g} points; "
        "batch and hidden layer are ours",
    )  # fmt: skip


def _order(config: Config, name: str, of: xr.Dataset) -> Claim:
    aware, low, high = (of.accuracy.sel(sampling=sampling) for sampling in names(config))
    above, below = curves.gap(high, aware), curves.gap(aware, low)
    return Claim(
        f"{name}-between",
        f"({name}) channel-aware is better than uniform p = {config.uniform[0]:g}, worse than {config.uniform[1]:g}",
        "between", f"{below} points above, {above} below", above.clear and below.clear,
        "verdict: both differences at the end positive, beyond two standard errors over seeds",
    )  # fmt: skip


def _growth(name: str, of: xr.Dataset) -> Claim:
    aware = of.sel(sampling=AWARE)
    first, whole = aware.frozen.mean("seed").item(), aware.central.mean("seed").item()
    return Claim(
        f"{name}-frozen-channel",
        f"({name}) channel-aware: max eps_c is a property of the scheme", "one number, whatever T",
        f"{first:.4g} in the first iteration, {whole:.4g} over all", bool(whole < 1.001 * first),
        "the channel moves, so the largest of T rounds grows with T; verdict: by less than 0.1%",
    )  # fmt: skip


def _is_papers(config: Config) -> bool:
    return config.setting.num_users == USERS and config.setting.dataset == "mnist"


def caveats(config: Config, result: xr.Dataset) -> list[str]:
    share = result.limited.isel(group=0).sel(sampling=names(config)[1]).mean("seed")
    return [
        training.describe(config.setting),
        "T = " + ", ".join(f"{panel.rounds:,} ({name})" for name, panel in config.panels.items()),
        "lines are means over seeds, bands their range; of leakage the largest over users and iterations is shown, "
        "a mean over seeds",
        "eps_l and eps_c stand at different deltas, both shown; delta' = 2 exp(-2 m^2/K) + 1e-5, delta_l = 1e-5",
        f"power limits {_list(100 * share.values, '.2g%')} of what 2 dB users send (uniform p = "
        f"{config.uniform[0]:g}): no bound covers them, neither the paper's nor the exact one, which takes all users "
        "for aligned",
        f"{int(result.failed.sum())} rounds of all runs failed and left the model as it was",
    ]


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(12, 7.4), layout="constrained")
    above, below = picture.subplots(2, len(config.panels), height_ratios=(1, 0.9))
    for (name, panel), top, bottom in zip(config.panels.items(), above, below, strict=True):
        of = result.sel(panel=name)
        title = f"({name}) L = {panel.clip:g}, sigma^2 = {config.noise_variance:g}, T = {panel.rounds:,}"
        curves.draw(top, of.accuracy.rename(sampling="line"), title)
        _table(bottom, config, panel, of)
    return picture


def _table(axes: Axes, config: Config, panel: Panel, of: xr.Dataset) -> None:
    mean = of.drop_vars("accuracy").mean("seed")
    printed = [f"{value}" for value in panel.accuracy]
    rows = {
        "participants (printed)": [
            f"{ours:.1f} ({said:g})" for ours, said in zip(mean.participants.values, config.participants, strict=True)
        ],
        "accuracy, % (printed)": [
            f"{100 * ours:.1f} ({said})"
            for ours, said in zip(curves.last(of.accuracy).mean("seed").values, printed, strict=True)
        ],
        "eps_l, Lemma 2": mean.lemma.values,
        "eps_l with N0, as in the table": mean.local.values,
        "at delta": mean.local_delta.values,
        "eps_c, eq. 13": mean.central.values,
        "eps_c, as printed at L = 1": mean.printed.values,
        "at delta_c": mean.central_delta.values,
        "exact eps at delta_c": mean.rigorous.values,
        "2 dB users limited, %": 100 * mean.limited.isel(group=0).values,
    }
    cells = [[v if isinstance(v, str) else f"{v:.4g}" for v in row] for row in rows.values()]
    axes.axis("off")
    table = axes.table(cells, rowLabels=list(rows), colLabels=names(config), loc="center", cellLoc="center")
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1, 1.25)


def _list(values: np.ndarray, how: str) -> str:
    number, unit = how.rstrip("%"), "%" if how.endswith("%") else ""
    return " / ".join(f"{value:{number}}{unit}" for value in np.ravel(values))

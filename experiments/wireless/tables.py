"""Channel-aware against uniform sampling: Fig. 4 with Table II, and Fig. 5 with Table III."""

from typing import NamedTuple, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from experiments.claims import Claim, Open
from experiments.comparison import decided, last
from experiments.harness import Outcome
from experiments.wireless import curves, leakage, training
from experiments.wireless.training import THRESHOLD, Setting

AWARE = "channel-aware"
USERS = 200
"""K of the paper's tables."""
NEAR = 2.0
"""Points of accuracy within which an accuracy is the paper's."""
HALF_A_DIGIT = 5e-4
"""Of a printed leakage."""


class Panel(NamedTuple):
    """One of the two of a figure, and what its table prints, for channel-aware and the two uniform columns."""

    clip: float
    rounds: int  # T; 0 until `config` sets it
    accuracy: tuple[float, ...]  # printed, in per cent
    papers_rounds: int | None = None  # T of the paper, if it gives one
    leakage: tuple[float, float] | None = None  # printed: eps_l of the first uniform column, eps_c of the second


PRINTED = {
    "II": (0.1, {
        "a": Panel(1.0, 0, (85.3, 84.0, 86.4), 400, (5.124, 3.132)),
        "b": Panel(0.1, 0, (84.3, 81.8, 86.3), 2500),
    }),
    "III": (0.8, {"a": Panel(1.0, 0, (88.7, 87.1, 90.3)), "b": Panel(0.2, 0, (75.9, 66.3, 83.7))}),
}  # fmt: skip
"""By table: sigma^2, and the panels."""


class Config(NamedTuple):
    """One figure and its table at one scale."""

    setting: Setting
    panels: dict[str, Panel]
    noise_variance: float
    participants: tuple[float, ...] = (96.0, 60.0, 180.0)  # printed
    uniform: tuple[float, ...] = (0.3, 0.9)
    seed: int = 0

    @property
    def columns(self) -> list[str]:
        """The ways to sample users."""
        return [AWARE, *(f"uniform p = {p:g}" for p in self.uniform)]

    @property
    def is_papers(self) -> bool:
        """Whether users and data are the paper's."""
        return self.setting.num_users == USERS and self.setting.task.dataset == "mnist"


def config(table: str, setting: Setting, *rounds: int) -> Config:
    """A table's panels, run for so many rounds each."""
    noise, panels = PRINTED[table]
    lengths = zip(panels.items(), rounds, strict=True)
    return Config(setting, {name: panel._replace(rounds=t) for (name, panel), t in lengths}, noise)


def run(config: Config) -> Outcome:
    parts = _train(config)
    result = cast(xr.Dataset, xr.concat(parts, xr.Variable("panel", list(config.panels)), join="outer"))
    result = result.assign_attrs(parts[0].attrs)
    found = [*claims(config, result), *printed(config, result)]
    return Outcome(figure(config, result), result, found, caveats(config, result))


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


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    """Four of each panel."""
    each = (_participants, _accuracy, _order, _growth)
    return [claim(config, name, result.sel(panel=name)) for name in config.panels for claim in each]


def _participants(config: Config, name: str, of: xr.Dataset) -> Claim:
    means = of.participants.mean("seed").values
    error = 4 * np.sqrt(config.setting.num_users / 4 / config.panels[name].rounds / config.setting.repeats)
    near = bool(np.all(np.abs(means - config.participants) < 0.5 + error))
    return Claim(
        f"{name}-participants", f"({name}) mean participants", _list(config.participants, "g"), _list(means, ".1f"),
        near if config.is_papers else None, f"within half a user and 4 standard errors, {error:.2f}",
        ", ".join(config.columns),
    )  # fmt: skip


def _accuracy(config: Config, name: str, of: xr.Dataset) -> Claim:
    panel, values = config.panels[name], 100 * last(of.accuracy, "iteration").mean("seed").values
    near = bool((np.abs(values - panel.accuracy) <= NEAR).all())
    comparable = config.is_papers and panel.rounds == panel.papers_rounds
    return Claim(
        f"{name}-accuracy", f"({name}) test accuracy", _list(panel.accuracy, "g%"), _list(values, ".1f%"),
        near if comparable else None, f"all within {NEAR:g} points",
        f"after {panel.rounds} iterations, L = {panel.clip:g}; batch and hidden layer are ours",
    )  # fmt: skip


def _order(config: Config, name: str, of: xr.Dataset) -> Claim:
    aware, low, high = (of.accuracy.sel(sampling=sampling) for sampling in config.columns)
    above, below = curves.ahead(high, aware), curves.ahead(aware, low)
    return Claim(
        f"{name}-between",
        f"({name}) channel-aware is better than uniform p = {config.uniform[0]:g}, worse than {config.uniform[1]:g}",
        "between", f"{below.text()} points above, {above.text()} below",
        decided(xr.concat([above.above(), below.above()], "pair")),
        "both differences at the end positive, 95% intervals over seeds", why=Open.UNDECIDED,
    )  # fmt: skip


def _growth(config: Config, name: str, of: xr.Dataset) -> Claim:
    aware = of.sel(sampling=AWARE)
    first, whole = aware.frozen.mean("seed").item(), aware.central.mean("seed").item()
    return Claim(
        f"{name}-frozen-channel", f"({name}) channel-aware: max eps_c is a property of the scheme",
        "one number, whatever T", f"{first:.4g} in the first iteration, {whole:.4g} over all",
        bool(whole < 1.001 * first), "the two differ by less than 0.1%",
        "the channel moves, so the largest of T rounds grows with T",
    )  # fmt: skip


def printed(config: Config, result: xr.Dataset) -> list[Claim]:
    """The two leakages of Table II(a), which tell the formula they were computed with."""
    said = []
    for name, panel in config.panels.items():
        if panel.leakage is None:
            continue
        local, central = panel.leakage
        mean = result.sel(panel=name).drop_vars("accuracy").mean("seed")
        low, high = (mean.sel(sampling=column) for column in config.columns[1:])
        tested = config.setting.num_users == USERS
        near = lambda value, printed, tested=tested: bool(abs(value - printed) < HALF_A_DIGIT) if tested else None
        said += [
            Claim(
                f"{name}-lemma-2", f"({name}) eps_l of {config.columns[1]} is Lemma 2's", f"{local}",
                f"{low.lemma.item():.3f}", near(low.lemma.item(), local), "to the printed digits",
                f"with the receiver's noise, which the lemma leaves out, {low.local:.3f}",
            ),
            Claim(
                f"{name}-eq-13", f"({name}) eps_c of {config.columns[2]} is eq. 13's", f"{central}",
                f"{high.central.item():.3f}", near(high.central.item(), central), "to the printed digits",
                f"log(2 max p/(1-delta')) + c/sqrt(m - beta K), which is weaker, is {high.printed:.3f}",
            ),
        ]  # fmt: skip
    return said


def caveats(config: Config, result: xr.Dataset) -> list[str]:
    limited = result.limited.isel(group=0).sel(sampling=config.columns[1]).mean("seed")
    return [
        training.describe(config.setting),
        "T = " + ", ".join(f"{panel.rounds:,} ({name})" for name, panel in config.panels.items()),
        "lines are means over seeds, bands their range; leakage is the largest over users and iterations, averaged "
        "over seeds",
        "eps_l and eps_c hold at different deltas, both shown; delta' = 2 exp(-2 m^2/K) + 1e-5, delta_l = 1e-5",
        f"power limits {_list(100 * limited.values, '.2g%')} of what 2 dB users send (uniform p = "
        f"{config.uniform[0]:g}): no bound covers these users, neither the paper's nor the exact one, which assumes "
        "that all users are aligned",
        training.failures(result),
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
    ends = 100 * last(of.accuracy, "iteration").mean("seed").values
    both = lambda ours, printed: [f"{x:.1f} ({said:g})" for x, said in zip(ours, printed, strict=True)]
    rows = {
        "participants (printed)": both(mean.participants.values, config.participants),
        "accuracy, % (printed)": both(ends, panel.accuracy),
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
    table = axes.table(cells, rowLabels=list(rows), colLabels=config.columns, loc="center", cellLoc="center")
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1, 1.25)


def _list(values: ArrayLike, how: str) -> str:
    number, unit = how.rstrip("%"), "%" if how.endswith("%") else ""
    return " / ".join(f"{value:{number}}{unit}" for value in np.ravel(values))

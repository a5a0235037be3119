"""Fig. 7 and 8: accuracy at the end against eps, with and without secure aggregation.

Without it the server sees every upload alone: as many models are averaged, with the noise that r = 1 needs.
"""

import functools
from typing import NamedTuple

import numpy as np
import xarray as xr

from experiments.cdp_fl import privacy
from experiments.cdp_fl.curves import caveats, draw
from experiments.cdp_fl.problem import Setting, problem
from experiments.cdp_fl.training import Plan, passes, train
from experiments.claims import Claim, Open, Source, untestable
from experiments.comparison import MARGIN, Gap, better_somewhere, decided, gap, over_seeds, plus_minus
from experiments.harness import Outcome

WITH, WITHOUT = "with secure aggregation", "without"
PAPER, PROVED = "the paper's eps", "proved eps"
SMALL = 0.002
"""Curves coincide below a fifth of a point, or noise."""


class Config(NamedTuple):
    """A figure at one scale."""

    setting: Setting
    rounds: int
    local_steps: int
    epsilons: tuple[float, ...] = tuple(float(eps) for eps in np.round(np.logspace(-2, 1, 7), 4))
    seed: int = 0


def run(config: Config) -> Outcome:
    return judge(config, runs(config))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    said = caveats(config.setting, result, budgets(config, result))
    panels = {str(name): result.sel(panel=name) for name in result.panel.values}
    picture = draw(panels, ("accuracy",), said[0])
    for axes in picture.axes:
        axes.set_xscale("log")
        axes.axhline(float(result.plain.mean()), color="grey", linewidth=1, linestyle=":")
    return Outcome(picture, result, claims(config, result), said)


def plan_of(config: Config) -> Plan:
    return passes(config.setting, config.rounds, config.local_steps, config.rounds)


def noise(config: Config) -> xr.DataArray:
    """Sigma by `panel`, `line` and `x`, an eps: charged as in the paper, or proved."""
    setting, plan = config.setting, plan_of(config)
    charges = {PAPER: privacy.paper, PROVED: privacy.proved}
    values = [
        [[privacy.sigma_for(eps, functools.partial(charge, setting, plan, alone=alone)) for eps in config.epsilons]
         for alone in (False, True)]
        for charge in charges.values()
    ]  # fmt: skip
    axes = {"panel": list(charges), "line": [WITH, WITHOUT], "x": ("x", list(config.epsilons), {"long_name": "eps"})}
    return xr.DataArray(values, axes, ("panel", "line", "x"))


def runs(config: Config) -> xr.Dataset:
    """Accuracy at the end by `panel`, `line`, `seed` and `x`, `plain` without noise, and `sigma`."""
    sigma = noise(config)
    tried = [0.0, *np.unique(sigma)]
    found = train(config.setting, plan_of(config), tried, problem(config.setting, config.seed), config.seed)
    last = found.isel(step=-1, drop=True)
    kept = last[["accuracy", "failed"]].sel(sigma=sigma).drop_vars("sigma")
    return kept.assign(sigma=sigma, plain=last.accuracy.sel(sigma=0.0, drop=True))


def budgets(config: Config, result: xr.Dataset) -> list[str]:
    """Both figures at the largest eps, and what is drawn."""
    setting, plan = config.setting, plan_of(config)
    largest = result.sigma.sel(panel=PAPER).isel(x=-1)
    alone = float(largest.sel(line=WITHOUT))
    seen = privacy.proved(setting, plan, alone, alone=True)
    return [
        f"tau = {plan.local_steps}, T = {plan.rounds}, gamma = {plan.batch_size}, one pass a round",
        f"{WITH}, {privacy.describe(setting, plan, float(largest.sel(line=WITH)))}",
        f"{WITHOUT}, sigma = {alone:.4g}: eps of the paper {config.epsilons[-1]:g}, proved {seen:.3g} if uploads are "
        "seen alone",
        "without secure aggregation as many models are averaged, with noise for r = 1; dotted: no noise",
    ]


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    learned = over_seeds(result.accuracy.sel(line=WITH, drop=True)).low > config.setting.majority
    lines = [result.accuracy.sel(line=line, drop=True) for line in (WITH, WITHOUT)]
    apart = lambda panel: (lines[0] - lines[1]).sel(panel=panel, drop=True)
    return [
        grows(result, WITH, "grows-with"),
        grows(result, WITHOUT, "grows-without"),
        always(apart(PAPER), learned.sel(panel=PAPER), "above-paper", PAPER, "always above", Source.PAPER),
        coincide(over_seeds(apart(PAPER))),
        always(apart(PROVED), learned.sel(panel=PROVED), "above-proved", PROVED, "", Source.OURS),
    ]


def grows(result: xr.Dataset, line: str, id: str) -> Claim:
    """From each eps to the next, and over all."""
    values = result.accuracy.sel(panel=PAPER, line=line, drop=True)
    over = gap(values.isel(x=-1, drop=True), values.isel(x=0, drop=True))
    later, before = (values.isel(x=part).drop_vars("x") for part in (slice(1, None), slice(-1)))
    step = gap(later, before).at_least(SMALL)
    near = gap(result.plain, values)
    flat = values.x.values[(near.mean <= np.maximum(SMALL, near.noise)).values]
    return Claim(
        id, f"accuracy grows with eps, {line}", "grows", listed(values.mean("seed")),
        decided(xr.concat([over.clear(), *step], "part")),
        f"by more than a point in all; no step down by more than {100 * SMALL:g}, 95% intervals over seeds",
        f"accuracy in % by the paper's eps; as without noise at eps = {several(flat)}", why=Open.UNDECIDED,
    )  # fmt: skip


def always(values: xr.DataArray, learned: xr.DataArray, id: str, panel: str, expected: str, source: Source) -> Claim:
    """Of differences by `x` and `seed`, where something is learned."""
    apart, places = over_seeds(values), max(int(learned.sum()), 1)
    sure = over_seeds(values, places)
    at = lambda answers: several(apart.mean.x.values[answers.values])
    claim = Claim(
        id, f"{WITH} always above, {panel}", expected, listed(apart.mean, apart.noise),
        decided(better_somewhere(values.sel(x=learned.x[learned.values]), MARGIN, "x")) if learned.any() else None,
        f"where more than the majority class is learned: above at some eps, below at none by more than "
        f"{100 * MARGIN:g} points, 95% intervals, for 'some' of all together; a tie is no failure",
        f"points of accuracy by eps; above at {at(sure.above() > 0)}; "
        f"as good as equal at {at(apart.small(MARGIN) > 0)}; something is learned at {at(learned)}",
        source, Open.UNDECIDED,
    )  # fmt: skip
    return claim if learned.any() else untestable(claim, "nothing but the majority class is learned at any eps")


def coincide(apart: Gap) -> Claim:
    """Above eps = 1."""
    large = apart.sel(x=apart.mean.x > 1)
    return Claim(
        "coincide", "of it, above eps = 1 the difference is noise", "", listed(large.mean, large.noise),
        decided(large.small(SMALL)), f"no more than {100 * SMALL:g} points, 95% intervals over seeds",
        source=Source.OURS, why=Open.UNDECIDED,
    )  # fmt: skip


def several(epsilons: np.ndarray) -> str:
    return ", ".join(f"{eps:g}" for eps in epsilons) or "none"


def listed(values: xr.DataArray, noise: xr.DataArray | None = None) -> str:
    """In points, by eps."""
    of = lambda x: "" if noise is None else plus_minus(100 * float(noise.sel(x=x)))
    return ", ".join(f"{x:g}: {100 * float(values.sel(x=x)):.3g}{of(x)}" for x in values.x.values)

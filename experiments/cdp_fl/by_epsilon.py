"""What Fig. 7 and 8 share: accuracy at the end against eps, with and without secure aggregation.

Without it every upload is seen alone: as many models are averaged, with the noise that is charged for r = 1.
"""

import functools
from typing import NamedTuple

import numpy as np
import xarray as xr

from experiments import harness
from experiments.cdp_fl import privacy
from experiments.cdp_fl.curves import CLEAR, Gap, caveats, draw, gap
from experiments.cdp_fl.problem import Setting, problem
from experiments.cdp_fl.training import Plan, passes
from experiments.cdp_fl.training import run as train
from experiments.harness import Claim

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


def outcome(config: Config) -> harness.Outcome:
    result = runs(config)
    said = caveats(config.setting, int(result.failed.sum()), budgets(config, result))
    panels = {str(name): result.sel(panel=name) for name in result.panel.values}
    picture = draw(panels, ("accuracy",), said[0])
    for axes in picture.axes:
        axes.set_xscale("log")
        axes.axhline(float(result.plain.mean()), color="grey", linewidth=1, linestyle=":")
    return harness.Outcome(picture, result, claims(result), said)


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


def claims(result: xr.Dataset) -> list[Claim]:
    apart = lambda panel: gap(*(result.accuracy.sel(panel=panel, line=line, drop=True) for line in (WITH, WITHOUT)))
    return [
        *(grows(result, line) for line in (WITH, WITHOUT)),
        always(apart(PAPER), f"{WITH} always above, {PAPER}", "always above"),
        coincide(apart(PAPER)),
        always(apart(PROVED), f"{WITH} always above, {PROVED}", "(ours)"),
    ]  # fmt: skip


def grows(result: xr.Dataset, line: str) -> Claim:
    """Between neighbouring eps, and over all."""
    values = result.accuracy.sel(panel=PAPER, line=line, drop=True)
    over = gap(values.isel(x=-1, drop=True), values.isel(x=0, drop=True))
    later, before = (values.isel(x=part).drop_vars("x") for part in (slice(1, None), slice(-1)))
    falls = gap(before, later)
    near = gap(result.plain, values)
    flat = values.x.values[(near.mean <= np.maximum(SMALL, near.noise)).values]
    return Claim(
        f"accuracy grows with eps, {line}", "grows", listed(values.mean("seed")),
        bool(over.clear and not (falls.real & (falls.mean > SMALL)).any()),
        f"accuracy in % by the paper's eps; verdict: more than {100 * CLEAR:g}, and noise, in all, no fall of more "
        f"than {100 * SMALL:g} and noise; as without noise at eps = {', '.join(f'{eps:g}' for eps in flat) or 'none'}",
    )  # fmt: skip


def always(apart: Gap, text: str, paper: str) -> Claim:
    held = apart.mean.x.values[apart.real.values]
    return Claim(
        text, paper, listed(apart.mean, apart.noise), bool(apart.real.all()),
        "points of accuracy by eps; verdict: above by more than noise at every eps; it is at "
        f"{', '.join(f'{eps:g}' for eps in held) or 'none'}",
    )  # fmt: skip


def coincide(apart: Gap) -> Claim:
    """Of eps above 1."""
    large = Gap(*(values.sel(x=values.x > 1) for values in apart))
    return Claim(
        "of it, above eps = 1 the difference is noise", "(ours)", listed(large.mean, large.noise),
        bool((abs(large.mean) <= np.maximum(SMALL, large.noise)).all()),
        f"verdict: no more than {100 * SMALL:g} points, or noise",
    )  # fmt: skip


def listed(values: xr.DataArray, noise: xr.DataArray | None = None) -> str:
    """In points, by eps."""
    of = lambda x: "" if noise is None else f" +- {100 * float(noise.sel(x=x)):.1f}"
    return ", ".join(f"{x:g}: {100 * float(values.sel(x=x)):.3g}{of(x)}" for x in values.x.values)

"""What Fig. 3 and 4 share: training by noise and by local steps, without a privacy budget."""

from typing import NamedTuple, cast

import numpy as np
import xarray as xr

from experiments import harness
from experiments.cdp_fl.curves import caveats, draw, gap
from experiments.cdp_fl.problem import Setting, problem
from experiments.cdp_fl.training import Plan
from experiments.cdp_fl.training import run as train
from experiments.harness import Claim


class Config(NamedTuple):
    """A figure at one scale."""

    setting: Setting
    batch_size: int
    local_steps: tuple[int, ...]
    sigmas: tuple[float, ...]  # the paper's
    added: tuple[float, ...]  # larger ones
    rounds: int = 100
    every: int = 5
    seed: int = 0


def runs(config: Config) -> xr.Dataset:
    """By `tau`, `sigma`, `seed` and `round`."""
    own, parts = problem(config.setting, config.seed), []
    for tau in config.local_steps:
        plan = Plan(config.rounds, tau, config.batch_size, config.every)
        part = train(config.setting, plan, (*config.sigmas, *config.added), own, config.seed)
        parts.append(part.rename(step="round").assign_coords(round=part.step.values // tau))
    return cast(xr.Dataset, xr.concat(parts, xr.Variable("tau", list(config.local_steps))))


def outcome(config: Config, measure: str, claims: list[Claim], result: xr.Dataset) -> harness.Outcome:
    """With the trends that both figures are to show; `measure` is what falls in training."""
    said = caveats(
        config.setting, int(result.failed.sum()),
        [f"batches of {config.batch_size}, {config.rounds} rounds; a schedule that takes devices equally often; "
         f"sigma above {max(config.sigmas):g} is added to the paper's"],
    )  # fmt: skip
    panels = {f"tau = {tau}": result.sel(tau=tau).rename(sigma="line", round="x") for tau in result.tau.values}
    picture = draw(panels, (measure, "accuracy"), said[0], "sigma")
    return harness.Outcome(picture, result, [*trends(config, result, measure), *claims], said)


def trends(config: Config, result: xr.Dataset, measure: str) -> list[Claim]:
    own, added = list(config.sigmas), [config.sigmas[0], *config.added]
    return [
        *(claim for sigmas, words in ((own, "the paper's sigma"), (added, "the sigma that were added"))
          for claim in (costs(result, measure, sigmas, words), costs(result, "accuracy", sigmas, words))),
        faster(config, result, measure), *(floor(result, measure, sigma) for sigma in (own[-1], added[-1])),
    ]  # fmt: skip


def costs(result: xr.Dataset, measure: str, sigmas: list[float], words: str) -> Claim:
    """What more noise does in the end, at every tau."""
    sign, better = (-1, "lower") if measure == "accuracy" else (1, "higher")
    last = sign * result[measure].isel(round=-1)
    most, least = sigmas[-1], sigmas[0]
    whole = gap(last.sel(sigma=most, drop=True), last.sel(sigma=least, drop=True))
    ours = "; ".join(
        f"tau {tau}: {sign * float(whole.mean.sel(tau=tau)):+.3g} +- {float(whole.noise.sel(tau=tau)):.2g}"
        for tau in result.tau.values
    )
    return Claim(
        f"larger sigma: {better} final {measure.replace('_', ' ')}, over {words}", better, ours, bool(whole.real.all()),
        f"sigma = {most:g} less {least:g} at the last round; verdict: {better} by more than noise at every tau",
    )  # fmt: skip


def faster(config: Config, result: xr.Dataset, measure: str) -> Claim:
    """At the first evaluation that follows a round, and the least noise."""
    early = result[measure].isel(round=1).sel(sigma=config.sigmas[0])
    means = early.mean("seed").values
    return Claim(
        f"larger tau: {measure.replace('_', ' ')} falls faster", "faster",
        ", ".join(f"tau {tau}: {mean:.3g}" for tau, mean in zip(result.tau.values, means, strict=True)),
        bool((np.diff(means) < 0).all()),
        f"after {int(result['round'][1])} rounds, sigma = {config.sigmas[0]:g}; verdict: the larger tau, the lower",
    )  # fmt: skip


def floor(result: xr.Dataset, measure: str, sigma: float) -> Claim:
    """At the last round."""
    last = result[measure].isel(round=-1).sel(sigma=sigma, drop=True)
    most, least = result.tau.values[-1], result.tau.values[0]
    above = gap(last.sel(tau=most, drop=True), last.sel(tau=least, drop=True))
    return Claim(
        f"larger tau: a higher floor of {measure.replace('_', ' ')}, sigma = {sigma:g}", "higher", above.text(1),
        bool(above.real), f"tau = {most} less {least} at the last round; verdict: above by more than noise",
    )  # fmt: skip


def turns(result: xr.Dataset, measure: str, tau: int, sigma: float, sign: int) -> tuple[float, float, int]:
    """How far a mean curve falls at most (rises, for -1) and comes back by the end, and the round where it turns."""
    curve = sign * result[measure].sel(tau=tau, sigma=sigma).mean("seed")
    at = int(curve.argmin("round"))
    return float(curve[0] - curve[at]), float(curve[-1] - curve[at]), int(curve["round"][at])

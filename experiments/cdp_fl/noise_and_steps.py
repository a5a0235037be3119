"""Fig. 3 and 4: training by noise and by local steps, without a privacy budget."""

from collections.abc import Callable
from typing import NamedTuple, cast

import xarray as xr

from experiments.cdp_fl.curves import caveats, draw
from experiments.cdp_fl.problem import Setting, problem
from experiments.cdp_fl.training import Plan, train
from experiments.claims import Claim, Open, controlled
from experiments.comparison import CLEAR, MARGIN, Gap, decided, gap, plus_minus
from experiments.harness import Outcome
from experiments.setting import differences

OURS = "scale of features, G and eta, which the paper does not give: its loss of 7 says that they were others"
"""In what the runs differ from the paper's: sigma is no multiple of G here, and its effect depends on all of these."""
RISE = 0.01
"""A loss rises if it does so by more than this."""


Turns = Callable[["Config", xr.Dataset], Claim]


class Config(NamedTuple):
    """A figure at one scale."""

    setting: Setting
    measure: str  # what falls in training
    batch_size: int
    local_steps: tuple[int, ...]
    sigmas: tuple[float, ...]  # the paper's
    added: tuple[float, ...]  # larger ones
    rounds: int = 100
    every: int = 5
    seed: int = 0


def run(config: Config, turns: Turns) -> Outcome:
    """`turns` is the claim on how the curves turn."""
    return judge(config, runs(config), turns)


def judge(config: Config, result: xr.Dataset, turns: Turns) -> Outcome:
    """The outcome from the data of the runs."""
    said = caveats(
        config.setting, result,
        [f"batches of {config.batch_size}, {config.rounds} rounds; a schedule that takes devices equally often; "
         f"sigma above {max(config.sigmas):g} is not the paper's"],
    )  # fmt: skip
    panels = {f"tau = {tau}": result.sel(tau=tau).rename(sigma="line", round="x") for tau in result.tau.values}
    picture = draw(panels, (config.measure, "accuracy"), said[0], "sigma")
    found = [*trends(config, result), turns(config, result)]
    return Outcome(picture, result, found, said)


def differs(config: Config, papers: Config) -> str:
    """From the paper's setting, at scale `paper` as well."""
    return ", ".join(filter(None, [differences(config, papers), OURS]))


def runs(config: Config) -> xr.Dataset:
    """By `tau`, `sigma`, `seed` and `round`."""
    own, parts = problem(config.setting, config.seed), []
    for tau in config.local_steps:
        plan = Plan(config.rounds, tau, config.batch_size, config.every)
        part = train(config.setting, plan, (*config.sigmas, *config.added), own, config.seed)
        parts.append(part.rename(step="round").assign_coords(round=part.step.values // tau))
    return cast(xr.Dataset, xr.concat(parts, xr.Variable("tau", list(config.local_steps))))


def trends(config: Config, result: xr.Dataset) -> list[Claim]:
    """What both figures are to show, with the paper's sigma and with those that were added."""
    ranges = {
        "paper": ("the paper's sigma", config.sigmas),
        "added": ("the sigma that were added", (config.sigmas[0], *config.added)),
    }
    return [
        *(
            costs(result, measure, f"cost-{measure}-{which}", f"over {words}", sigmas)
            for which, (words, sigmas) in ranges.items() for measure in (config.measure, "accuracy")
        ),
        faster(config, result),
        *(floor(result, config.measure, f"floor-{which}", sigmas) for which, (_, sigmas) in ranges.items()),
    ]  # fmt: skip


def costs(result: xr.Dataset, measure: str, id: str, words: str, sigmas: tuple[float, ...]) -> Claim:
    """What more noise does in the end, at every tau."""
    sign, worse = (-1, "lower") if measure == "accuracy" else (1, "higher")
    last = sign * result[measure].isel(round=-1)
    most, least = sigmas[-1], sigmas[0]
    whole = gap(last.sel(sigma=most, drop=True), last.sel(sigma=least, drop=True))
    found = "; ".join(
        f"tau {tau}: {sign * float(whole.mean.sel(tau=tau)):+.3g}{plus_minus(float(whole.noise.sel(tau=tau)))}"
        for tau in result.tau.values
    )
    margin = MARGIN if measure == "accuracy" else RISE
    return Claim(
        id, f"larger sigma: {worse} final {measure.replace('_', ' ')}, {words}", worse, found,
        decided(whole.above(margin=margin)), f"{worse} at every tau, 95% intervals over seeds",
        f"sigma = {most:g} less {least:g} at the last round", why=Open.UNDECIDED,
    )  # fmt: skip


def faster(config: Config, result: xr.Dataset) -> Claim:
    """At the first evaluation after a round, and the least noise."""
    early = result[config.measure].isel(round=1).sel(sigma=config.sigmas[0])
    means = early.mean("seed").values
    later, before = (early.isel(tau=part).drop_vars("tau") for part in (slice(1, None), slice(-1)))
    return Claim(
        "faster", f"larger tau: {config.measure.replace('_', ' ')} falls faster", "faster",
        ", ".join(f"tau {tau}: {mean:.3g}" for tau, mean in zip(result.tau.values, means, strict=True)),
        decided(gap(before, later).above()), "the larger tau, the lower, 95% intervals over seeds",
        f"after {int(result['round'][1])} rounds, sigma = {config.sigmas[0]:g}", why=Open.UNDECIDED,
    )  # fmt: skip


def floor(result: xr.Dataset, measure: str, id: str, sigmas: tuple[float, ...]) -> Claim:
    """At the last round; a floor that noise makes is not there to be seen if noise costs nothing."""
    sigma, ends = sigmas[-1], result[measure].isel(round=-1)
    cost = gap(*(ends.sel(sigma=of, drop=True) for of in (sigma, sigmas[0])))
    last = ends.sel(sigma=sigma, drop=True)
    most, least = result.tau.values[-1], result.tau.values[0]
    above = gap(last.sel(tau=most, drop=True), last.sel(tau=least, drop=True))
    claim = Claim(
        id, f"larger tau: a higher floor of {measure.replace('_', ' ')}, sigma = {sigma:g}", "higher", above.text(1),
        decided(above.above(margin=RISE)), "above, 95% interval over seeds",
        f"tau = {most} less {least} at the last round", why=Open.UNDECIDED,
    )  # fmt: skip
    shown = ", ".join(f"{float(cost.mean.sel(tau=tau)):+.2g} at tau {tau}" for tau in result.tau.values)
    control = f"noise costs {shown}, sigma {sigma:g} less {sigmas[0]:g}"
    return controlled(claim, decided(cost.above(margin=RISE).max()), control)


def falls_then_rises(config: Config, result: xr.Dataset) -> Claim:
    """At the paper's largest noise and tau; and the least noise at which it happens."""
    tau, most = config.local_steps[-1], config.sigmas[-1]
    found = {sigma: turn(result, config.measure, tau, float(sigma)) for sigma in result.sigma.values}
    down, up, at = found[most]
    turned = join([of.above(RISE, margin=RISE) for of in (down, up)])
    first = [sigma for sigma, (_, back, _) in found.items() if back.above(RISE) > 0]
    least = float(result[config.measure].sel(tau=tau, sigma=most).mean("seed").min())
    return Claim(
        "falls-then-rises", f"sigma = {most:g}, tau = {tau}: the loss falls, then rises",
        "to 7 by round 40, then rises",
        f"falls by {down.text(1)} to {least:.3g} at round {at}, then rises by {up.text(1)}",
        decided(turned), f"both by more than {RISE}, 95% intervals over seeds",
        f"rises from sigma = {min(first, default=float('nan')):g} on", why=Open.UNDECIDED,
    )  # fmt: skip


def drops_then_rises(config: Config, result: xr.Dataset) -> Claim:
    """At the paper's largest noise, for each tau."""
    sigma = config.sigmas[-1]
    found = {tau: turn(result, "accuracy", int(tau), sigma) for tau in result.tau.values}
    both = join([of.above(CLEAR) for down, up, _ in found.values() for of in (down, up)])
    return Claim(
        "drops-then-rises", f"sigma = {sigma:g}: accuracy drops at first, then rises", "drops, then rises",
        "; ".join(f"tau {tau}: down {down.text()}, then up {up.text()} points" for tau, (down, up, _) in found.items()),
        decided(both), "both by more than a point, at every tau, 95% intervals over seeds",
        f"around the least of the other seeds' mean curve, evaluated every {config.every} rounds", why=Open.UNDECIDED,
    )  # fmt: skip


def turn(result: xr.Dataset, measure: str, tau: int, sigma: float) -> tuple[Gap, Gap, int]:
    """How far curves fall to where their mean is least, how far they come back by the end, and the round of that.

    Noise alone makes the least of a curve lie below its end, so each seed is read where the others' mean is least.
    """
    curves = result[measure].sel(tau=tau, sigma=sigma, drop=True)
    least = curves.isel(round=least_of_others(curves), drop=True).drop_vars("round")
    first, end = (curves.isel(round=place, drop=True) for place in (0, -1))
    return gap(first, least), gap(end, least), int(curves["round"][int(curves.mean("seed").argmin("round"))])


def least_of_others(curves: xr.DataArray) -> xr.DataArray:
    """By `seed`: the place in `round` where the mean of the other seeds is least; of a seed alone, its own."""
    others = curves.sum("seed") - curves if curves.sizes["seed"] > 1 else curves
    return others.argmin("round")


def join(answers: list[xr.DataArray]) -> xr.DataArray:
    """Answers as one array."""
    return xr.DataArray([int(one) for one in answers], dims="answer")

"""What Fig. 5 and 6 share: Algorithm 1 against DP-SGD, at the paper's eps, at equal proved eps, and step by step.

DP-SGD with as many gradient steps takes tau rounds for one of the others, and is drawn against as many passes.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import xarray as xr

from experiments import harness
from experiments.cdp_fl import privacy
from experiments.cdp_fl.curves import CLEAR, NAMES, Gap, caveats, draw, gap
from experiments.cdp_fl.problem import Problem, Setting, problem
from experiments.cdp_fl.training import Plan, passes
from experiments.cdp_fl.training import run as train
from experiments.harness import Claim

CDP, DP = "CDP-FL", "DP-SGD"
PAPER, PROVED, STEPS, NO_NOISE = "the paper's eps", "proved eps", "as many steps, proved eps", "no noise"


class Config(NamedTuple):
    """A figure at one scale."""

    setting: Setting
    rounds: int
    local_steps: int
    epsilon: float = 10.0
    every: int = 1
    seed: int = 0


class Curve(NamedTuple):
    """One line: how long, and with how much noise."""

    plan: Plan
    sigma: float


def curves(config: Config) -> dict[str, Curve]:
    """By name; a proved eps of DP-SGD is one with amplification by batches drawn afresh."""
    setting = config.setting
    plan = passes(setting, config.rounds, config.local_steps, config.every)
    single = plan._replace(local_steps=1)
    steps = Plan(config.rounds * config.local_steps, 1, plan.batch_size, config.every * config.local_steps)

    def curve(plan: Plan, charge: Callable[[Setting, Plan, float], float]) -> Curve:
        return Curve(plan, privacy.sigma_for(config.epsilon, functools.partial(charge, setting, plan)))

    return {
        f"{CDP}, {PAPER}": curve(plan, privacy.paper),
        f"{CDP}, {PROVED}": curve(plan, privacy.proved),
        f"{CDP}, {NO_NOISE}": Curve(plan, 0.0),
        f"{DP}, {PAPER}": curve(single, privacy.paper),
        f"{DP}, {PROVED}": curve(single, privacy.amplified),
        f"{DP}, {STEPS}": curve(steps, privacy.amplified),
    }


def runs(config: Config, of: dict[str, Curve]) -> xr.Dataset:
    """By `line`, `seed` and `x`, rounds of Algorithm 1; curves of one plan are one program."""
    own, plans = problem(config.setting, config.seed), dict.fromkeys(curve.plan for curve in of.values())
    parts = {name: part for plan in plans for name, part in _of_plan(config, plan, of, own).items()}
    whole = xr.concat([parts[name] for name in of], xr.Variable("line", list(of)))
    whole["sigma"] = "line", [curve.sigma for curve in of.values()]
    return whole.assign_coords(x=("x", whole.x.values, {"long_name": "round, or passes of as many steps"}))


def _of_plan(config: Config, plan: Plan, of: dict[str, Curve], own: Problem) -> dict[str, xr.Dataset]:
    sigmas = {name: curve.sigma for name, curve in of.items() if curve.plan == plan}
    found = train(config.setting, plan, list(dict.fromkeys(sigmas.values())), own, config.seed)
    x = range(0, config.rounds + 1, config.every)
    return {
        name: found.sel(sigma=sigma, drop=True).rename(step="x").assign_coords(x=list(x))
        for name, sigma in sigmas.items()
    }


def outcome(config: Config, measure: str) -> harness.Outcome:
    """`measure` is what falls in training."""
    of = curves(config)
    result = runs(config, of)
    said = caveats(config.setting, int(result.failed.sum()), budgets(config, of))
    picture = draw({"": result}, ("accuracy", measure), said[0])
    return harness.Outcome(picture, result, claims(config, result, measure), said)


def budgets(config: Config, of: dict[str, Curve]) -> list[str]:
    """What each curve costs."""
    setting, said = config.setting, []
    for name, (plan, sigma) in of.items():
        if name == f"{CDP}, {NO_NOISE}":
            continue
        describe = privacy.describe if name.startswith(CDP) else privacy.describe_dp_sgd
        said.append(f"{name}: {plan.rounds} rounds, {describe(setting, plan, sigma)}")
    steps, plain = of[f"{DP}, {STEPS}"].plan, of[f"{CDP}, {PAPER}"].sigma
    eps = privacy.amplified(setting, steps, plain)
    return [*said, f"DP-SGD of as many steps at the sigma of {CDP}, {PAPER}: proved eps {eps:.3g}"]


def claims(config: Config, result: xr.Dataset, measure: str) -> list[Claim]:
    at = f"eps = {config.epsilon:g}"
    ours, proved = f"{CDP}, {PAPER}", f"{CDP}, {PROVED}"
    base, amplified, steps = (f"{DP}, {name}" for name in (PAPER, PROVED, STEPS))
    early = config.rounds // 4
    return [
        above(result, ours, base, early, f"faster than DP-SGD at the start, {at}", "faster"),
        above(result, ours, base, config.rounds, f"better than DP-SGD at the end, {at}", "better"),
        lower(result, ours, base, measure, f"a lower {NAMES[measure]} than DP-SGD at the end, {at}"),
        above(
            result, ours, steps, config.rounds, f"better than DP-SGD with as many gradient steps, {at}", "(ours)",
            f"; its eps is proved; of the gain over DP-SGD {share(result, ours, base, steps)} are more gradient "
            f"steps; without noise {points(result, f'{CDP}, {NO_NOISE}', ours).text()} on top",
        ),
        above(result, proved, amplified, config.rounds, f"better than DP-SGD, both proved {at}", "(ours)"),
        above(
            result, proved, steps, config.rounds,
            f"better than DP-SGD with as many gradient steps, both proved {at}", "(ours)",
        ),
    ]  # fmt: skip


def points(result: xr.Dataset, one: str, other: str, x: int | None = None, measure: str = "accuracy") -> Gap:
    """Between two lines at a round, the last if none is given."""
    at = result[measure].sel(x=result.x[-1] if x is None else x, method="nearest")
    return gap(at.sel(line=one, drop=True), at.sel(line=other, drop=True))


def above(result: xr.Dataset, one: str, other: str, x: int, text: str, paper: str, more: str = "") -> Claim:
    found = points(result, one, other, x)
    note = f"points of accuracy at round {x}; verdict: more than {100 * CLEAR:g}, and noise, above{more}"
    return Claim(text, paper, found.text(), bool(found.clear), note)


def lower(result: xr.Dataset, one: str, other: str, measure: str, text: str) -> Claim:
    found = points(result, other, one, measure=measure)
    return Claim(text, "lower", f"by {found.text(1)}", bool(found.real), "at the last round; verdict: beyond noise")


def share(result: xr.Dataset, ours: str, base: str, steps: str) -> str:
    """Of our gain over the baseline, if there is one, what the baseline gains by as many steps."""
    theirs, own = (float(points(result, one, base).mean) for one in (steps, ours))
    return f"{theirs / own:.0%}" if own > 0 else "none"

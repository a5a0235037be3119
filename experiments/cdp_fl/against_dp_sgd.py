"""Fig. 5 and 6: Algorithm 1 against DP-SGD, at the paper's eps, at equal proved eps, and step by step.

DP-SGD with as many gradient steps takes tau rounds for each round of Algorithm 1, and is drawn against passes.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import xarray as xr

from experiments.cdp_fl import privacy
from experiments.cdp_fl.curves import NAMES, caveats, draw
from experiments.cdp_fl.problem import Problem, Setting, problem
from experiments.cdp_fl.training import Plan, passes, train
from experiments.claims import Claim, Open, Source
from experiments.comparison import Gap, decided, gap
from experiments.harness import Outcome

CDP, DP = "CDP-FL", "DP-SGD"
PAPER, PROVED, STEPS, NO_NOISE = "the paper's eps", "proved eps", "as many steps, proved eps", "no noise"
PLAIN, BASE, MANY = f"{CDP}, {PAPER}", f"{DP}, {PAPER}", f"{DP}, {STEPS}"


class Config(NamedTuple):
    """A figure at one scale."""

    setting: Setting
    measure: str  # what falls in training
    rounds: int
    local_steps: int
    epsilon: float = 10.0
    every: int = 1
    seed: int = 0


class Curve(NamedTuple):
    """One line: how long is trained, and with how much noise."""

    plan: Plan
    sigma: float


def run(config: Config) -> Outcome:
    return judge(config, runs(config, curves(config)))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    said = caveats(config.setting, result, budgets(config, curves(config)))
    return Outcome(draw({"": result}, ("accuracy", config.measure), said[0]), result, claims(config, result), said)


def curves(config: Config) -> dict[str, Curve]:
    """By name; the proved eps of DP-SGD includes amplification by batches drawn afresh."""
    setting = config.setting
    plan = passes(setting, config.rounds, config.local_steps, config.every)
    single = plan._replace(local_steps=1)
    steps = Plan(config.rounds * config.local_steps, 1, plan.batch_size, config.every * config.local_steps)

    def curve(plan: Plan, charge: Callable[[Setting, Plan, float], float]) -> Curve:
        return Curve(plan, privacy.sigma_for(config.epsilon, functools.partial(charge, setting, plan)))

    return {
        PLAIN: curve(plan, privacy.paper),
        f"{CDP}, {PROVED}": curve(plan, privacy.proved),
        f"{CDP}, {NO_NOISE}": Curve(plan, 0.0),
        BASE: curve(single, privacy.paper),
        f"{DP}, {PROVED}": curve(single, privacy.amplified),
        MANY: curve(steps, privacy.amplified),
    }


def runs(config: Config, of: dict[str, Curve]) -> xr.Dataset:
    """By `line`, `seed` and `x`, rounds of Algorithm 1; the curves of one plan are one program."""
    own, plans = problem(config.setting, config.seed), dict.fromkeys(curve.plan for curve in of.values())
    parts = {name: part for plan in plans for name, part in _of_plan(config, plan, of, own).items()}
    whole = xr.concat([parts[name] for name in of], xr.Variable("line", list(of)))
    whole["sigma"] = "line", [curve.sigma for curve in of.values()]
    return whole.assign_coords(x=("x", whole.x.values, {"long_name": "round, or passes of as many steps"}))


def _of_plan(config: Config, plan: Plan, of: dict[str, Curve], own: Problem) -> dict[str, xr.Dataset]:
    sigmas = {name: curve.sigma for name, curve in of.items() if curve.plan == plan}
    found = train(config.setting, plan, list(dict.fromkeys(sigmas.values())), own, config.seed)
    x = list(range(0, config.rounds + 1, config.every))
    return {
        name: found.sel(sigma=sigma, drop=True).rename(step="x").assign_coords(x=x) for name, sigma in sigmas.items()
    }


def budgets(config: Config, of: dict[str, Curve]) -> list[str]:
    """The privacy cost of each curve with noise."""
    setting, said = config.setting, []
    for name, (plan, sigma) in of.items():
        if sigma:
            describe = privacy.describe if plan.local_steps > 1 else privacy.describe_dp_sgd
            said.append(f"{name}: {plan.rounds} rounds, {describe(setting, plan, sigma)}")
    eps = privacy.amplified(setting, of[MANY].plan, of[PLAIN].sigma)
    return [*said, f"DP-SGD of as many steps at the sigma of {PLAIN}: proved eps {eps:.3g}"]


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    at = f"eps = {config.epsilon:g}"
    proved, amplified = f"{CDP}, {PROVED}", f"{DP}, {PROVED}"
    return [
        above(result, PLAIN, BASE, "faster-at-start", f"faster than DP-SGD at the start, {at}", "faster",
              x=config.rounds // 4),
        above(result, PLAIN, BASE, "better", f"better than DP-SGD at the end, {at}", "better"),
        lower(result, config.measure, f"a lower {NAMES[config.measure]} than DP-SGD at the end, {at}"),
        above(
            result, PLAIN, MANY, "as-many-steps", f"better than DP-SGD with as many gradient steps, {at}",
            more=f"; its eps is proved; of the gain over DP-SGD {fraction(result)} are more gradient steps; "
            f"without noise {points(result, f'{CDP}, {NO_NOISE}', PLAIN).text()} on top",
        ),
        above(result, proved, amplified, "both-proved", f"better than DP-SGD, both proved {at}"),
        above(result, proved, MANY, "as-many-steps-proved",
              f"better than DP-SGD with as many gradient steps, both proved {at}"),
    ]  # fmt: skip


def points(result: xr.Dataset, one: str, other: str, x: int | None = None, measure: str = "accuracy") -> Gap:
    """Between two lines at a round; None: at the last one."""
    at = result[measure].sel(x=result.x[-1] if x is None else x, method="nearest")
    return gap(at.sel(line=one, drop=True), at.sel(line=other, drop=True))


def above(
    result: xr.Dataset, one: str, other: str, id: str, text: str, expected: str = "", x: int | None = None, more=""
) -> Claim:
    """A claim of ours if the paper expects nothing."""
    found, at = points(result, one, other, x), int(result.x[-1]) if x is None else x
    return Claim(
        id, text, expected, found.text(), decided(found.above()), "above, 95% interval over seeds",
        f"points of accuracy at round {at}{more}", Source.PAPER if expected else Source.OURS, Open.UNDECIDED,
    )  # fmt: skip


def lower(result: xr.Dataset, measure: str, text: str) -> Claim:
    found = points(result, BASE, PLAIN, measure=measure)
    return Claim(
        f"lower-{measure}",
        text,
        "lower",
        f"by {found.text(1)}",
        decided(found.above()),
        "95% interval over seeds",
        "at the last round",
        why=Open.UNDECIDED,
    )


def fraction(result: xr.Dataset) -> str:
    """Of our gain over DP-SGD, if there is one, what DP-SGD gains by as many steps."""
    theirs, own = (float(points(result, one, BASE).mean) for one in (MANY, PLAIN))
    return f"{theirs / own:.0%}" if own > 0 else "none"

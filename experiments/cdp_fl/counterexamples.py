"""Theorem 1's counterexamples: claimed against true delta and eps, and an audit of the first one by simulation."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.cdp_fl.audit import Audit, audit
from experiments.claims import Claim, Source, controlled
from experiments.drawing import colours_of, plain
from experiments.harness import Outcome
from fedjax_priv.theory import cdp_fl as theory

CASES = {
    "i": ("(i) convex and smooth, one batch", theory.smooth_convex),
    "ii": ("(ii) one pass, tau = B = 2", theory.one_pass),
    "iii": ("(iii) part of a pass, tau = 1", theory.part_of_a_pass),
}


class Config(NamedTuple):
    """One scale."""

    audits: tuple[tuple[float, int], ...] = ((1.0, 100_000), (3.0, 100_000))  # stated eps, runs with each data set
    num_samples: int = 100
    confidence: float = 0.99
    delta: float = 1e-4
    epsilons: tuple[float, ...] = tuple(float(eps) for eps in np.round(np.logspace(-1, 1, 9), 4))
    seed: int = 0


def run(config: Config) -> Outcome:
    found = {name: [case(eps, config.delta) for eps in config.epsilons] for name, case in CASES.values()}
    deltas = [[one.delta for one in of] for of in found.values()]
    true = [[theory.true_epsilon(one.law, config.delta) for one in of] for of in found.values()]
    audits = [
        audit(eps, config.delta, runs, config.num_samples, config.confidence, config.seed)
        for eps, runs in config.audits
    ]
    result = xr.Dataset(
        {"delta": (("case", "stated"), deltas), "epsilon": (("case", "stated"), true)}
        | {name: ("audited", [getattr(one, name) for one in audits]) for name in Audit._fields},
        {"case": list(found), "stated": list(config.epsilons), "audited": [eps for eps, _ in config.audits]},
    )
    return judge(config, result)


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the audits and the laws."""
    audits = [Audit(*(result[name].values[i].item() for name in Audit._fields)) for i in range(len(config.audits))]
    said = [
        f"one round, r = 10, delta = {config.delta:g}; sigma is that for which Theorem 1 states eps",
        "true: exact laws of the released sum, P[E] - e^eps P'[E] of the worst event E; (ii) leaves out a clipping "
        "that changes less than 1e-14",
        f"audit of (i): rounds of the library's system with m = {config.num_samples}, tau = 10, for the same E; bars: "
        f"{config.confidence:.0%} confidence (Clopper and Pearson), runs "
        + ", ".join(f"{runs:,} at eps = {eps:g}" for eps, runs in config.audits),
        "(iii) keeps the batch secret",
    ]  # fmt: skip
    claims = [*(is_false(result, id, name, config.delta) for id, (name, _) in CASES.items()), *verdicts(config, audits)]
    return Outcome(figure(config, result), result, claims, said)


def is_false(result: xr.Dataset, id: str, name: str, delta: float) -> Claim:
    of = result.sel(case=name)
    found = (of.sel(stated=eps, method="nearest") for eps in (1.0, 10.0))
    return Claim(
        id, f"{name}: Theorem 1 holds", f"delta = {delta:g} at the stated eps",
        "; ".join(f"eps = {one.stated:g}: delta {one.delta:.3g}, eps {one.epsilon:.3g}" for one in found),
        bool((of.delta <= delta).all()), "at all eps", "true delta at the stated eps, true eps at the stated delta",
    )  # fmt: skip


def verdicts(config: Config, audits: list[Audit]) -> list[Claim]:
    """Whether a lower confidence bound on delta leaves room for what is stated, and for what is proved."""
    claims = []
    for (eps, runs), one in zip(config.audits, audits, strict=True):
        found, about = f"{one.measured:.4f}, at least {one.low:.4f}", f"audit of (i) at eps = {eps:g} leaves"
        note = f"{runs:,} runs with each data set, {config.confidence:.0%} confidence"
        inside, control = bool(one.low <= one.exact <= one.high), f"by the law of the sum {one.exact:.4f}"
        theorem = Claim(
            f"audit-{eps:g}-theorem-1", f"{about} Theorem 1 standing", f"delta <= {config.delta:g}", found,
            bool(one.theorem_1 >= eps), "at the measured bound Theorem 1 states at least this eps",
            f"{note}; at the measured bound Theorem 1 states eps {one.theorem_1:.3g}",
        )  # fmt: skip
        proved = Claim(
            f"audit-{eps:g}-proved", f"{about} row {one.row} standing", "", found, bool(one.table >= eps and inside),
            "at the measured bound the row proves at least this eps, and the interval holds what the law says",
            f"{note}; at the measured bound row {one.row} proves eps {one.table:.3g}", Source.OURS, control=control,
        )  # fmt: skip
        claims += [controlled(theorem, inside, control), proved]
    return claims


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(9.5, 4.2), layout="constrained")
    left, right = picture.subplots(1, 2)
    lines(left, result.delta)
    error = [(result.measured - result.low).values, (result.high - result.measured).values]
    left.errorbar(result.audited, result.measured, error, fmt="o", color="black", capsize=3, label="audit of (i)")
    left.axhline(config.delta, color="grey", linestyle="--", label="stated")
    left.set(ylabel="true delta at the stated eps", ylim=(config.delta / 2, 1))
    lines(right, result.epsilon)
    right.plot(config.epsilons, config.epsilons, color="grey", linestyle="--", label="stated")
    right.set_ylabel(f"true eps at delta = {config.delta:g}")
    left.legend(frameon=False, fontsize=8, loc="upper left")
    return picture


def lines(axes: Axes, values: xr.DataArray) -> None:
    for name, colour in colours_of(values.case.values).items():
        axes.plot(values.stated, values.sel(case=name), color=colour, linewidth=1.6, label=str(name))
    axes.set(xscale="log", yscale="log", xlabel="eps stated by Theorem 1")
    plain(axes)

"""Every system of the four papers: the eps claimed, the eps proved, and the least eps that an audit shows."""

from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.audit import counterexample
from experiments.audit.cases import ALPHA, CLIENTS, PROPOSED, SIGMA, STEPS, Case, cases, subject
from experiments.claims import Claim, Source, untestable
from experiments.harness import Outcome
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.audit import Finding, findings, upload_finding, verdict
from fedjax_priv.audit.bounds.many_runs import NEVER
from fedjax_priv.ledger import ledger
from fedjax_priv.runs.simulation import simulate

ALL = ("FedAvg", "SecAgg", "SparseSecAgg", "FedREP", "wireless", "wireless, orthogonal", "CDP-FL", "DP-SGD")
WHO = {
    "server": "server", "proposal": "server, a proposal", "device": "a client", "everybody": "everybody",
    "upload": "server, an upload alone", "outsider": "an outsider",
}  # fmt: skip
"""An adversary's name in the figure, by the view of the ledger's entry."""
UNBOUNDED = 0.9
"""If an audit shows more than this fraction of the largest eps that its trials can show, eps has no bound."""


class Config(NamedTuple):
    """One scale."""

    names: tuple[str, ...] = ALL
    trials: int = 20_000
    masked_trials: int = 200  # with true masks: each word of an upload tells masks from none
    delta: float = 1e-4
    confidence: float = 0.99
    stated: float = 3.0  # eps of Theorem 1 in counterexample (i)
    seed: int = 0


def run(config: Config) -> Outcome:
    rows = {}
    for name, case in cases().items():
        if name in config.names:
            rows |= {f"{name}: {who}": finding for who, finding in audited(config, case).items()}
    rows["CDP-FL, counterexample (i): server"] = counterexample.audited(config)
    result = dataset(rows)
    said = [
        f"{CLIENTS} clients, one round, delta = {config.delta:g} (wireless, claimed: the theorem's own; uploads: 0), "
        f"{config.trials:,} runs with each of two adjacent inputs, {config.confidence:.0%} confidence each",
        "two inputs: sums and wireless, another update of a client, the worst case of all others known; FedREP's "
        f"proposals, another of its {PROPOSED} largest coordinates, alpha = {ALPHA:g}; CDP-FL and DP-SGD, another "
        "label of a sample or a crafted gradient, true local training, "
        f"sigma = {SIGMA * STEPS**0.5:.3g} and {SIGMA:.3g}",
        f"an upload alone: {config.masked_trials} runs of two rounds with true masks, against random words; masks were "
        "elided in all other runs: the same aggregates bit for bit; an audit bounds eps from below",
    ]
    return Outcome(figure(result), result, claims(rows), said)


def audited(config: Config, case: Case) -> dict[str, Finding]:
    """Findings by the adversary's name."""
    own, key = subject(case, config.seed), jax.random.key(config.seed)
    system = (own.unmasked or own.make)(own.local, None)
    ran = simulate(system, key, own.params, own.data, rounds=1, every=1, progress=False)
    at = lambda delta: ledger(system, ran, own.data, delta=delta, lipschitz=case.lipschitz)
    found = findings(
        own, at(config.delta), key, trials=config.trials, delta=config.delta, confidence=config.confidence, at=at
    )
    if own.unmasked is not None:
        found.append(upload_finding(own, key, trials=config.masked_trials, confidence=config.confidence))
    return {WHO[one.view]: one for one in found}


def dataset(rows: dict[str, Finding]) -> xr.Dataset:
    """A row for each finding; eps is NaN if there is no guarantee. What no paper claims is left out."""
    number = lambda value: np.nan if value is None else float(value)
    values: dict[str, Any] = {
        name: ("row", [number(getattr(one, name)) for one in rows.values()])
        for name in ("claimed", "proved", "at_least", "limit")
    }
    for name, kind in (("claim_contradicted", "claimed"), ("proof_contradicted", "proved")):
        values[name] = ("row", [kind in one.contradicts for one in rows.values()])
    told = xr.Dataset(values, {"row": list(rows)})
    return told if told.claimed.notnull().any() else told.drop_vars(["claimed", "claim_contradicted"])


def claims(rows: dict[str, Finding]) -> list[Claim]:
    return [claim for name, one in rows.items() for claim in of_row(name, one)]


def of_row(name: str, one: Finding) -> list[Claim]:
    found = f"at least {one.at_least:.3g}"
    note = f"{one.counted}; shown by: {one.look}; at most {one.limit:.3g} could have been shown"
    if one.claimed is None is one.proved:
        shown = bool(one.at_least > UNBOUNDED * one.limit)
        rule = f"the audit shows more than {UNBOUNDED:.0%} of what its trials could"
        text = f"{name}: no bound on eps, as the ledger says"
        return [Claim(f"{name}: unbounded", text, "none", found, shown, rule, note, Source.OURS)]
    figures = (("claimed", "the paper's", one.claimed, Source.PAPER), ("proved", "the proved", one.proved, Source.OURS))
    rule = "no test of the figure, at its delta or at others, contradicts it"
    made = {
        kind: Claim(
            f"{name}: {kind}", f"{name}: {whose} eps stands", f"{eps:.3g}", found, kind in one.stands, rule,
            f"{note}; {verdict(one)}", source,
        )
        for kind, whose, eps, source in figures if eps is not None
    }  # fmt: skip
    return [judged(kind, claim, one) for kind, claim in made.items()]


def judged(kind: str, claim: Claim, one: Finding) -> Claim:
    """Nothing follows for a figure that these trials could not contradict; a test at other deltas may have done so."""
    needed = one.untestable.get(kind)
    if needed is None or kind in one.contradicts:
        return claim
    trials = f"{needed:,} trials" if needed < NEVER else "more trials than there can be"
    return untestable(claim, f"at most {one.limit:.3g} could have been shown: it takes {trials}")


def figure(result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(9.5, 0.42 * result.sizes["row"] + 1.4), layout="constrained")
    axes = picture.subplots()
    height = np.arange(result.sizes["row"])[::-1]
    axes.hlines(height, 0, result.at_least, color=COLOURS[2], linewidth=5, alpha=0.45, label="audit: eps is at least")
    axes.plot(result.limit, height, "|", color="grey", markersize=11, label="most that the trials could show")
    axes.plot(result.proved, height, "o", color=COLOURS[0], markersize=7, label="proved", clip_on=False)
    hollow: Any = {"markersize": 7, "fillstyle": "none"}
    if "claimed" in result:
        axes.plot(result.claimed, height, "s", color=COLOURS[1], label="claimed by the paper", **hollow)
    _mark(axes, result, height)
    axes.set_yticks(height, result.row.values)
    axes.set(xscale="symlog", xlabel="eps", xlim=(0, 200))
    ticks = [0, 0.5, 1, 2, 5, 10, 20, 50, 100]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.02)
    picture.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=4)
    return picture


def _mark(axes: Axes, result: xr.Dataset, height: np.ndarray) -> None:
    """Names rows without a guarantee, and claims that the audit contradicts."""
    for at, name in zip(height, result.row.values, strict=True):
        row = result.sel(row=name)
        none = all(np.isnan(row[kind]) for kind in ("claimed", "proved") if kind in row)
        claim = "claimed" in row and bool(row.claim_contradicted)
        said = "claim contradicted" if claim else "proof contradicted"
        text, colour = ("no guarantee", "grey") if none else (said, COLOURS[1])
        if none or claim or row.proof_contradicted:
            axes.annotate(text, (200, at), ha="right", va="center", fontsize=8, color=colour)

"""Fig. 3, 5 and 6: total upload, rounds and time to a target accuracy, SecAgg against SparseSecAgg."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.claims import Claim, Open
from experiments.comparison import decided, gap, last, over_seeds
from experiments.drawing import BANDS, band, finish
from experiments.harness import Outcome, span
from experiments.sparse_secagg.training import ELIDED, Config, adversaries, compare, rounds_to, total_to
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.theory import sparse_secagg as theory

_STYLE = {"SecAgg": "-", "SparseSecAgg": "--"}
_EACH = ("seed", "round")
_BAND, _TIE = math.log(1.2), math.log(1.05)
"""Ratios of our runs and the paper's that agree, and of times that are as good as equal, as logarithms."""


class Paper(NamedTuple):
    """What the paper reports of a figure."""

    upload: float  # SecAgg's total over SparseSecAgg's
    clock: float  # the same ratio of time


def of(**paper: Any) -> tuple[Callable, Callable]:
    """`run` and `judge` of a figure."""
    return functools.partial(run, **paper), functools.partial(judge, **paper)


def run(config: Config, paper: Paper, more: Callable[[Config, xr.Dataset], list[Claim]]) -> Outcome:
    """A figure; `more` makes the claims that the other two do not have."""
    result = compare(config)
    if config.setting.partition != "iid":
        iid = config._replace(setting=config.setting._replace(partition="iid"), timed_rounds=0)
        runs = compare(iid, systems=["SparseSecAgg"])
        result["accuracy_iid"] = runs.accuracy.sel(system="SparseSecAgg", drop=True)
    return judge(config, result, paper, more)


def judge(
    config: Config, result: xr.Dataset, paper: Paper, more: Callable[[Config, xr.Dataset], list[Claim]]
) -> Outcome:
    """Figure and claims, from the data of a run."""
    found = [*claims(config, paper, result), *more(config, result)]
    return Outcome(figure(config, result), result, found, caveats(config, result))


def describe(config: Config) -> str:
    """The setting in a line."""
    setting = config.setting
    partition = "IID" if setting.partition == "iid" else f"non-IID, {setting.num_shards} shards"
    return f"{setting.task}; {partition}; alpha = {setting.alpha}, theta = {setting.dropout}; {config.repeats} run(s)"


def caveats(config: Config, result: xr.Dataset) -> list[str]:
    return [
        describe(config), ELIDED,
        f"bars are means and whiskers the range over {config.repeats} run(s), in (d) over rounds too", BANDS,
        f"time: training and masks as measured here (other work on the machine slows it), uploads at "
        f"{config.bandwidth / 1e6:g} Mbit/s; white: with every other message",
        f"{int(result.failed.sum())} rounds of all runs had too few survivors and left the model unchanged",
    ]  # fmt: skip


def claims(config: Config, paper: Paper, result: xr.Dataset) -> list[Claim]:
    """What the three figures share."""
    of = lambda values: values.sel(system="SecAgg", drop=True) / values.sel(system="SparseSecAgg", drop=True)
    per_round = of(result.mean("seed").upload.sum("round")).values
    expected = theory.compression_ratio(result.num_clients.values, config.setting.alpha)
    rounds = rounds_to(result, config.target)
    total, clock = (of(total_to(result, name, config.target)) for name in ("upload", "seconds_upload"))
    reached, needed = bool(rounds.notnull().all()), paper.upload / 8
    shown = lambda values: span(values.mean("seed", skipna=False).values)
    mean = rounds.mean("seed", skipna=False)
    each = [f"{name} {', '.join(f'{n:.3g}' for n in mean.sel(system=name).values)}" for name in _STYLE]
    why = Open.UNDECIDED if reached else Open.NOT_RUN
    return [
        Claim(
            "total-upload", f"total upload to {config.target:.0%}: SecAgg / SparseSecAgg", f"{paper.upload}",
            shown(total), _between(total, paper.upload), "within 20% of the range found, 95% intervals over seeds",
            "ours is the range over N; the paper does not publish its N", why=why,
        ),
        Claim(
            "bytes-a-round", "of it, bytes a round", "about 8 (Table I)", span(per_round),
            bool((abs(per_round / expected - 1) < 0.02).all()), "within 2% of 32 / (32 p + 1)",
            f"32 / (32 p + 1) = {span(expected)}",
        ),
        Claim(
            "rounds", "of it, rounds: SecAgg / SparseSecAgg", f"{needed:.2g} (implied)", shown(of(rounds)),
            _between(of(rounds), needed), "within 20% of the range found, 95% intervals over seeds",
            f"{', '.join(each)} rounds", why=why,
        ),
        Claim(
            "time", "SparseSecAgg reaches the target in less time", f"{paper.clock}x", f"{shown(clock)}x",
            decided(over_seeds(_log(clock)).above(margin=_TIE)), "in less time at every N, 95% intervals over seeds",
            "uploads only; the factor depends on model and machine", why=why,
        ),
    ]  # fmt: skip


def _between(values: xr.DataArray, paper: float) -> bool | None:
    """Whether ratios `[num_clients, seed]` are, at some N, not below the paper's by 20%, and at some not above it."""
    apart = _log(values / paper)
    places = apart.sizes["num_clients"]
    ends = [over_seeds(sign * apart, places).at_least(_BAND).max("num_clients") for sign in (1, -1)]
    return decided(xr.concat(ends, "end"))


def _log(ratios: xr.DataArray) -> xr.DataArray:
    return xr.apply_ufunc(np.log, ratios)


def rounds(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 3(b)."""
    needed = rounds_to(result, config.target)
    dense, sparse = (needed.sel(system=system, drop=True) for system in ("SecAgg", "SparseSecAgg"))
    few, mean = (0.2 * dense).clip(min=5), sparse.mean("seed", skipna=False)
    later, before = (needed.isel(num_clients=part).drop_vars("num_clients") for part in (slice(1, None), slice(-1)))
    why = Open.UNDECIDED if bool(needed.notnull().all()) else Open.NOT_RUN
    several = needed.sizes["num_clients"] > 1
    return [
        Claim(
            "few-rounds-earlier", "SecAgg reaches the target only a few rounds earlier", "a few",
            span((sparse - dense).mean("seed", skipna=False).values),
            decided(over_seeds(few - (sparse - dense)).at_least(0)),
            "at most 5 rounds, or a fifth of SecAgg's, 95% intervals over seeds", why=why,
        ),
        Claim(
            "rounds-grow-with-n", "larger N needs more rounds", "more", ", ".join(f"{r:.3g}" for r in mean.values),
            decided(gap(later, before).above(margin=1)) if several else None,
            "at every step of N, both systems, 95% intervals over seeds", why=why if several else Open.NOT_RUN,
        ),
    ]  # fmt: skip


def revealed(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 5(c); every round draws its masks anew, so each is a sample."""
    del config
    each = result.revealed_all.sel(system="SparseSecAgg", drop=True).stack(draw=_EACH).drop_vars(["draw", *_EACH])
    steps = [one - other for one, other in itertools.pairwise(each)]
    falls = [over_seeds(step.rename(draw="seed").dropna("seed")).above() for step in steps]
    several = each.sizes["num_clients"] > 1
    return [
        Claim(
            "revealed-by-n", "revealed fraction falls with N", "falls",
            ", ".join(f"{part:.3f}" for part in each.mean("draw").values),
            decided(xr.concat(falls, "step")) if several else None,
            "at every step of N, 95% intervals over rounds", why=Open.UNDECIDED if several else Open.NOT_RUN,
            note="coordinates that one honest user sends, dropouts not counted; the server reads more: see leakage",
        )
    ]  # fmt: skip


def below_iid(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 6: accuracy at the end of non-IID runs and of IID runs of as many rounds."""
    sparse = result.accuracy.sel(system="SparseSecAgg", drop=True)
    ends = lambda runs: xr.concat([last(one, "evaluation") for _, one in runs.groupby("num_clients")], "num_clients")
    ahead = gap(ends(sparse), ends(result.accuracy_iid))
    return [
        Claim(
            "below-iid", "only 3% below IID at comparable upload", "at most 3%", f"{span(-100 * ahead.mean.values)}%",
            decided(ahead.at_least(0.035)),
            "at most 3 points, to the printed digit, at every N, 95% intervals over seeds: less is better",
            "SparseSecAgg after the last round, range over N", why=Open.UNDECIDED,
        )
    ]  # fmt: skip


def figure(config: Config, result: xr.Dataset) -> Figure:
    """(a) total upload, (b) accuracy by round, (c) time, (d) revealed fraction."""
    picture = Figure(figsize=(11, 7.6), layout="constrained")
    upload, accuracy, clock, revealed = picture.subplots(2, 2).flat
    total = lambda name: total_to(result, name, config.target)
    _bars(upload, total("upload") / 1e6)
    finish(upload, f"(a) upload until {config.target:.0%}", ylabel="all users' uploads (MB)")
    _accuracy(accuracy, config, result)
    _bars(clock, total("seconds_all"), behind=True)
    _bars(clock, total("seconds_upload"))
    finish(clock, f"(c) modelled time until {config.target:.0%}", ylabel="time (s)")
    _revealed(revealed, config, result)
    picture.suptitle(describe(config), fontsize=10)
    return picture


def _bars(axes: Axes, values: xr.DataArray, *, behind: bool = False) -> None:
    """A bar for each system and N; bars behind others are white."""
    places, runs = np.arange(values.sizes["num_clients"]), values.sizes["seed"]
    for i, system in enumerate(values.system.values):
        of, at = values.sel(system=system), places + 0.4 * i - 0.2
        mean, error = _whiskers(of, ["seed"])
        label = str(system) if not behind else "every other message" if not i else None
        axes.bar(
            at, mean, 0.36, yerr=error if runs > 1 and not behind else None, capsize=3,
            color="white" if behind else COLOURS[i], edgecolor="black", linewidth=0.6, label=label,
        )  # fmt: skip
        for place, height in zip(at, () if behind else mean, strict=not behind):
            text = f"{height:.3g}" if np.isfinite(height) else "not\nreached"
            where = (place, height if np.isfinite(height) else 0)
            axes.annotate(text, where, xytext=(0, 3), textcoords="offset points", ha="center", fontsize=8)
    axes.set_xticks(places, [f"N = {n}" for n in values.num_clients.values])
    axes.set_xlim(-0.9, len(places) - 0.1)
    axes.margins(y=0.15)


def _whiskers(values: xr.DataArray, over: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Means, and the distances to minimum and maximum."""
    mean = values.mean(over).values
    return mean, np.stack([mean - values.min(over).values, values.max(over).values - mean])


def _accuracy(axes: Axes, config: Config, result: xr.Dataset) -> None:
    for colour, n in zip(COLOURS, result.num_clients.values, strict=False):
        for system in result.system.values:
            runs = result.accuracy.sel(num_clients=n, system=system).dropna("evaluation", how="all")
            band(axes, runs, "evaluation", f"{system}, N = {n}", colour, _STYLE[str(system)])
    axes.axhline(config.target, color="grey", linewidth=0.8, linestyle=":")
    low = max(0.0, config.target - 0.3)
    finish(axes, "(b) accuracy by round", size=8, xlabel="round", ylabel="test accuracy", ylim=(low, None))


def _revealed(axes: Axes, config: Config, result: xr.Dataset) -> None:
    n, runs, alpha = result.num_clients.values, result.sel(system="SparseSecAgg"), config.setting.alpha
    kinds = (("revealed_all", "all honest users, as in the paper", 0.0),
             ("revealed", "honest survivors", config.setting.dropout))  # fmt: skip
    for i, (name, label, dropout) in enumerate(kinds):
        exact = [theory.revealed_fraction(k, adversaries(k), alpha, dropout) for k in n]
        mean, error = _whiskers(runs[name], _EACH)
        axes.errorbar(n, mean, error, fmt="os"[i], color=COLOURS[i], capsize=4, label=label)
        axes.plot(n, exact, ":_", color="black", markersize=14, linewidth=1, label=None if i else "exact")
    title = f"(d) sent by one honest user, alpha = {alpha}"
    finish(axes, title, size=8, xlabel="N", ylabel="fraction of coordinates", ylim=(0, None))
    axes.set_xticks(n)

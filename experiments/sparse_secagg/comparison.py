"""Fig. 3, 5 and 6: total upload, rounds and time to a target accuracy, SecAgg against SparseSecAgg."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.claims import Claim
from experiments.comparison import last
from experiments.drawing import band, finish
from experiments.harness import COLOURS, Outcome, span
from experiments.sparse_secagg.training import ELIDED, Config, adversaries, compare, rounds_to, total_to
from fedjax_priv.theory import sparse_secagg as theory

_STYLE = {"SecAgg": "-", "SparseSecAgg": "--"}
_EACH = ("seed", "round")


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
        f"bars are means, whiskers and bands the range over {config.repeats} run(s), in (d) over rounds too",
        f"time: training and masks as measured here (other work on the machine slows it), uploads at "
        f"{config.bandwidth / 1e6:g} Mbit/s; white: with every other message",
        f"{int(result.failed.sum())} rounds of all runs had too few survivors and left the model unchanged",
    ]  # fmt: skip


def claims(config: Config, paper: Paper, result: xr.Dataset) -> list[Claim]:
    """What the three figures share."""
    of = lambda values: values.sel(system="SecAgg", drop=True) / values.sel(system="SparseSecAgg", drop=True)
    per_round = of(result.mean("seed").upload.sum("round")).values
    expected = theory.compression_ratio(result.num_clients.values, config.setting.alpha)
    rounds = rounds_to(result, config.target).mean("seed", skipna=False)
    total, clock = (
        of(total_to(result, name, config.target).mean("seed", skipna=False)).values
        for name in ("upload", "seconds_upload")
    )
    reached, needed = bool(rounds.notnull().all()), paper.upload / 8
    each = [f"{name} {', '.join(f'{n:.3g}' for n in rounds.sel(system=name).values)}" for name in _STYLE]
    return [
        Claim(
            "total-upload", f"total upload to {config.target:.0%}: SecAgg / SparseSecAgg", f"{paper.upload}",
            span(total), _between(total, paper.upload) if reached else None, "within 20% of the range found",
            "ours is the range over N; the paper does not publish its N",
        ),
        Claim(
            "bytes-a-round", "of it, bytes a round", "about 8 (Table I)", span(per_round),
            bool((abs(per_round / expected - 1) < 0.02).all()), "within 2% of 32 / (32 p + 1)",
            f"32 / (32 p + 1) = {span(expected)}",
        ),
        Claim(
            "rounds", "of it, rounds: SecAgg / SparseSecAgg", f"{needed:.2g} (implied)", span(of(rounds).values),
            _between(of(rounds).values, needed) if reached else None, "within 20% of the range found",
            f"{', '.join(each)} rounds",
        ),
        Claim(
            "time", "SparseSecAgg reaches the target in less time", f"{paper.clock}x", f"{span(clock)}x",
            bool((clock > 1).all()) if reached else None, "in less time at every N",
            "uploads only; the factor depends on model and machine",
        ),
    ]  # fmt: skip


def _between(values: np.ndarray, paper: float) -> bool:
    return bool(values.min() / 1.2 <= paper <= values.max() * 1.2)


def rounds(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 3(b)."""
    needed = rounds_to(result, config.target).mean("seed", skipna=False)
    dense, sparse = (needed.sel(system=system).values for system in ("SecAgg", "SparseSecAgg"))
    reached = bool(needed.notnull().all())
    more = bool((np.diff(sparse) > 0).all() and (np.diff(dense) > 0).all())
    return [
        Claim(
            "few-rounds-earlier", "SecAgg reaches the target only a few rounds earlier", "a few", span(sparse - dense),
            bool((sparse - dense <= np.maximum(5, 0.2 * dense)).all()) if reached else None,
            "at most 5 rounds, or a fifth of SecAgg's",
        ),
        Claim(
            "rounds-grow-with-n", "larger N needs more rounds", "more", ", ".join(f"{r:.3g}" for r in sparse),
            more if reached and len(sparse) > 1 else None, "at every step of N, both systems",
        ),
    ]  # fmt: skip


def revealed(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 5(c)."""
    del config
    mean = result.revealed_all.sel(system="SparseSecAgg").mean(_EACH).values
    return [
        Claim(
            "revealed-by-n", "revealed fraction falls with N", "falls", ", ".join(f"{part:.3f}" for part in mean),
            bool((np.diff(mean) < 0).all()) if len(mean) > 1 else None, "at every step of N",
            "coordinates that one honest user sends, dropouts not counted; the server reads more: see leakage",
        )
    ]  # fmt: skip


def below_iid(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 6: accuracy at the end of non-IID runs and of IID runs of as many rounds."""
    sparse = result.accuracy.sel(system="SparseSecAgg", drop=True)
    ends = lambda runs: np.array([last(one, "evaluation").item() for one in runs.mean("seed")])
    lost = ends(result.accuracy_iid) - ends(sparse)
    return [
        Claim(
            "below-iid", "only 3% below IID at comparable upload", "at most 3%", f"{span(100 * lost)}%",
            bool((100 * lost < 3.5).all()), "at most 3 points, to the printed digit, at every N: less is better",
            "SparseSecAgg after the last round, range over N",
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

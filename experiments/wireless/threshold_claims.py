"""What is claimed of thresholds and of the number of participants, and the picture."""

import itertools
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.claims import Claim, Open, Source, controlled, untestable
from experiments.comparison import Gap, decided, gap, last
from experiments.drawing import band, colours_of, finish
from fedjax_priv.analysis.line_styles import COLOURS

PAGE = {0.5: (197.824, 1.358), 1.0: (173.341, 16.937), 1.5: (127.582, 39.565), 2.0: (95.992, 45.994),
        3.0: (63.995, 41.773), 4.0: (47.997, 35.497)}  # fmt: skip
"""Means of m and v for K = 200, computed elsewhere."""
SMALL = 0.02
"""Accuracies that the paper would call close."""


def claims(config: Any, result: xr.Dataset) -> list[Claim]:
    """All by the rule they name."""
    ends = last(result.accuracy, "evaluation")
    of = lambda line: ends.sel(line=line)
    aware = [f"h_th = {h:g}" for h in config.thresholds]
    lowest, highest, papers = aware[0], aware[-1], f"h_th = {config.compared:g}"
    uniform = f"uniform p = {config.uniform:g}"
    found = [
        *_moments(config, result),
        _lower(gap(of(lowest), of(highest)), [gap(of(a), of(b)) for a, b in itertools.pairwise(aware)]),
        _few(config, result, gap(of(lowest), of(papers)), gap(of(papers), of(highest))),
        _equal(result, gap(of(papers), of(uniform)), gap(of(papers), of(highest)), papers, uniform),
        *_leaks(config, result, aware),
        _chosen(config, result, aware),
        *_shards(result, uniform),
    ]
    return [claim._replace(differs=_setting(config) if claim.source == Source.PAPER else "") for claim in found]


def _setting(config: Any) -> str:
    """In what users and data are not the paper's."""
    papers = config.setting.num_users == 200 and str(config.setting.task).startswith("mnist; softmax")
    return "" if papers else f"{config.setting.task}, K = {config.setting.num_users}"


def _moments(config: Any, result: xr.Dataset) -> list[Claim]:
    """The closed forms, and what the runs had."""
    scale = config.setting.num_users / 200
    m, v = result.m.values, result.v.values
    exact = np.array([PAGE[h] for h in config.thresholds]).T * scale
    found = result.participants.isel(line=slice(len(m))).mean("seed").values
    error = 4 * np.sqrt(m * (1 - m / config.setting.num_users) / config.rounds / result.sizes["seed"])
    said = lambda values: " / ".join(f"{value:.3f}" for value in values)
    return [
        Claim(
            "m", "the mean number of participants m by h_th", said(exact[0]),
            f"{said(m)}; in the runs {' / '.join(f'{value:.1f}' for value in found)}",
            bool(np.allclose(m, exact[0], atol=6e-4) and (abs(found - m) < error).all()),
            "to the digits; runs within 4 standard errors of a binomial number", "K E min(1, h / h_th), Rician G = 5",
            source=Source.OURS,
        ),
        Claim(
            "v", "the variance v = sum p (1 - p) of that number, given the gains", said(exact[1]), said(v),
            bool(np.allclose(v, exact[1], atol=6e-4)), "to the digits", source=Source.OURS,
        ),
    ]  # fmt: skip


def _lower(whole: Gap, steps: list[Gap]) -> Claim:
    small = [step.at_least(SMALL) for step in steps]
    claim = Claim(
        "lower-helps", "a lower h_th gives a higher accuracy", "higher",
        f"{whole.text()} points from the highest h_th to the lowest; "
        f"by step {', '.join(f'{100 * float(step.mean):+.2g}' for step in steps[::-1])}",
        decided(xr.concat([whole.above(), *small], "step")),
        "the interval of the whole difference is above 0, and no step down costs 2 points", why=Open.UNDECIDED,
    )  # fmt: skip
    return claim


def _few(config: Any, result: xr.Dataset, missing: Gap, more: Gap) -> Claim:
    number = result.participants.mean("seed")
    few, many = (float(number.sel(line=f"h_th = {h:g}")) for h in (config.compared, config.thresholds[0]))
    control = f"control: {more.text()} points from h_th = {config.thresholds[-1]:g} to {config.compared:g}"
    claim = Claim(
        "few-suffice", "few participants suffice", "nearly the accuracy of nearly all users",
        f"{few:.0f} of {config.setting.num_users} are {missing.text()} points behind {many:.0f}",
        decided(missing.small(SMALL)), f"within {100 * SMALL:g} points, as sure as that",
        f"exact eps {_eps(result, config.compared)} against {_eps(result, config.thresholds[0])}", why=Open.UNDECIDED,
        control=control,
    )  # fmt: skip
    return controlled(claim, decided(more.above()), control)


def _eps(result: xr.Dataset, threshold: float) -> str:
    return f"{float(result.rigorous.sel(line=f'h_th = {threshold:g}').mean()):.3g}"


def _equal(result: xr.Dataset, ahead: Gap, more: Gap, papers: str, uniform: str) -> Claim:
    """Whether who takes part matters, at equal m."""
    control = f"control: h_th lower by a factor of two, at more participants, {more.text()} points"
    claim = Claim(
        "equal-m", f"channel-aware sampling ({papers}) is better than uniform sampling of as many", "better",
        f"{ahead.text()} points; participants {_mean(result, papers)} and {_mean(result, uniform)}",
        decided(ahead.above()), "the interval of the difference is above 0", source=Source.OURS, why=Open.UNDECIDED,
        control=control,
    )  # fmt: skip
    return controlled(claim, decided(more.above()), control)


def _mean(result: xr.Dataset, line: str) -> str:
    return f"{float(result.participants.sel(line=line).mean()):.1f}"


def _leaks(config: Any, result: xr.Dataset, aware: list[str]) -> list[Claim]:
    mean = result.sel(line=aware).mean("seed")
    row = lambda name: " / ".join(f"{value:.3g}" for value in mean[name].values)
    certain, delta = result.certain.sel(line=aware).mean("seed").values, mean.central_delta.values
    return [
        Claim(
            "eps-l-falls", "more participants hide a user better: eps_l falls with h_th", "falls",
            f"{row('local')} (delta {row('local_delta')})", bool((np.diff(mean.local.values) > 0).all()),
            "every lower h_th has the smaller eps_l, with N0", source=Source.OURS,
        ),
        Claim(
            "eps-c-bounds", "eq. 13 is above the exact eps of replacement at delta_c", "above",
            f"eps_c {row('central')}, exact {row('rigorous')} (delta {row('central_delta')})",
            bool((mean.central >= mean.rigorous).all()), "at every h_th", source=Source.OURS,
        ),
        Claim(
            "removal", "where nearly all join there is no figure for removal: all taking part shows it", "none",
            f"P[all take part] = {certain[0]:.2g} at h_th = {config.thresholds[0]:g}, {certain[-1]:.2g} at "
            f"{config.thresholds[-1]:g}", bool(certain[0] > delta[0] and certain[-1] < delta[-1]),
            "that probability is above delta_c at the lowest h_th, and below at the highest", source=Source.OURS,
        ),
    ]  # fmt: skip


def _chosen(config: Any, result: xr.Dataset, aware: list[str]) -> Claim:
    validation = last(result.validation, "evaluation").sel(line=aware).mean("seed")
    best = aware[int(np.argmax(validation.values))]
    test = last(result.accuracy, "evaluation").sel(line=aware)
    ahead = gap(test.sel(line=best, drop=True), test.drop_sel(line=best))
    apart = xr.concat([Gap(sign * ahead.mean, ahead.noise).bites(SMALL) for sign in (1, -1)], "sign")
    shown = " / ".join(f"{100 * float(value):.1f}%" for value in test.mean("seed"))
    claim = Claim(
        "chosen", "h_th is found by validation", "cross-validation",
        f"{best}: {100 * float(validation.max()):.1f}% on held-out training samples; on the test set "
        f"{_least(ahead).text()} points from the next", decided(ahead.at_least(SMALL)),
        f"on the test set no other is better by {100 * SMALL:g} points, 95% intervals over seeds",
        "validation by h_th: " + " / ".join(f"{100 * value:.1f}%" for value in validation.values), why=Open.UNDECIDED,
    )  # fmt: skip
    return controlled(
        claim, decided(apart.max()), f"thresholds that matter are {100 * SMALL:g} points apart; test by h_th: {shown}"
    )


def _least(ahead: Gap) -> Gap:
    return ahead.sel(line=ahead.mean.idxmin("line").item())


def _shards(result: xr.Dataset, uniform: str) -> list[Claim]:
    """Weights are p_k / m: even over a run if gains change, and never if they do not."""
    ends = last(result.shards_accuracy, "evaluation")
    of = lambda line: ends.sel(shards_line=line)
    moving, frozen = gap(of("channel-aware"), of(uniform)), gap(of("channel-aware"), of("channel-aware, frozen"))
    spread = (result.shards_most_weight / result.shards_least_weight).mean("seed")
    ratio = {line: float(spread.sel(shards_line=line)) for line in ("channel-aware", "channel-aware, frozen")}
    weights = (
        f"mean weights differ by a factor of {ratio['channel-aware']:.2f}, frozen {ratio['channel-aware, frozen']:.2f}"
    )
    same = Claim(
        "shards-moving", "on shards channel-aware sampling is not behind uniform sampling of as many", "not behind",
        f"{moving.text()} points", decided(moving.at_least(SMALL)), f"not by {100 * SMALL:g} points",
        "gains that change weigh users alike over a run", source=Source.OURS, why=Open.UNDECIDED, control=weights,
    )  # fmt: skip
    bites = ratio["channel-aware, frozen"] > 2 * ratio["channel-aware"]
    return [
        same if bites else untestable(same, weights),
        Claim(
            "shards-frozen", "gains that never change cost accuracy on shards: weights stay p_k / m", "cost",
            f"{frozen.text()} points", decided(frozen.above()), "the interval of the difference is above 0", weights,
            source=Source.OURS, why=Open.UNDECIDED,
        ),
    ]  # fmt: skip


def figure(config: Any, result: xr.Dataset) -> Figure:
    """Validation and test accuracy and leakage by h_th; accuracy by round."""
    picture = Figure(figsize=(12.6, 7), layout="constrained")
    panels = picture.subplots(2, 2)
    _accuracies(panels[0, 0], config, result)
    _leakages(panels[0, 1], config, result)
    lines = [f"h_th = {config.thresholds[0]:g}", f"h_th = {config.compared:g}", f"h_th = {config.thresholds[-1]:g}",
             f"uniform p = {config.uniform:g}"]  # fmt: skip
    for axes, runs, title in (
        (panels[1, 0], result.accuracy.sel(line=lines), "data alike"),
        (panels[1, 1], result.shards_accuracy.rename(shards_line="line"), "shards of two labels"),
    ):
        for line, colour in colours_of(runs.line.values, shaded=False).items():
            band(axes, runs.sel(line=line).dropna("evaluation"), "evaluation", str(line), colour)
        finish(axes, title, legend={"loc": "lower right"}, xlabel="round", ylabel="test accuracy", ylim=(0, 1), size=8)
    return picture


def _accuracies(axes: Axes, config: Any, result: xr.Dataset) -> None:
    aware = [f"h_th = {h:g}" for h in config.thresholds]
    for name, colour in (("validation", COLOURS[0]), ("accuracy", COLOURS[1])):
        runs = (
            last(result[name], "evaluation").sel(line=aware).rename(line="h").assign_coords(h=list(config.thresholds))
        )
        band(axes, runs, "h", {"accuracy": "test"}.get(name, name), colour, "o-")
    uniform = last(result.accuracy, "evaluation").sel(line=f"uniform p = {config.uniform:g}").mean()
    axes.axhline(float(uniform), color="black", linestyle=":", label=f"uniform p = {config.uniform:g}, test")
    about = f"{config.setting.task}, K = {config.setting.num_users}, T = {config.rounds:,}"
    finish(axes, about, xlabel="h_th", ylabel="accuracy at the end", ylim=(None, 1), size=8)


def _leakages(axes: Axes, config: Any, result: xr.Dataset) -> None:
    mean = result.sel(line=[f"h_th = {h:g}" for h in config.thresholds]).mean("seed")
    names = {"local": "eps_l, with N0", "central": "eps_c, eq. 13", "rigorous": "exact eps at delta_c"}
    for (name, label), colour in zip(names.items(), COLOURS, strict=False):
        axes.plot(config.thresholds, mean[name], "o-", color=colour, label=label)
    finish(axes, "leakage of the worst round", xlabel="h_th", ylabel="eps", yscale="log", size=8)

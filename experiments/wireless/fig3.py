"""Fig. 3: convergence with a known and an unknown number of participants, bounds and accuracy."""

from typing import Any, NamedTuple, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.claims import Claim, Open
from experiments.comparison import Gap, better_somewhere, decided, last, over_seeds
from experiments.drawing import BANDS, band, finish
from experiments.harness import Outcome
from experiments.wireless import training
from experiments.wireless.training import Setting
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.theory import wireless as theory


class Config(NamedTuple):
    """The paper's numbers, except p and T of (b). Its caption says K = 20, its text 200."""

    setting: Setting
    num_users: tuple[int, ...] = (20, 200)
    participation: tuple[float, ...] = (0.1, 0.3, 0.5, 0.9)
    rounds: int = 400  # of (b)
    problem: theory.Problem = theory.Problem(smoothness=0.9, convexity=0.2, num_params=30)
    clip: float = 2.0  # L
    noise_variance: float = 0.1  # sigma^2
    receiver_noise: float = 1.0  # N0
    iterations: int = 4000  # of (a)
    seed: int = 0


TIE = 0.005
"""Half a point: accuracies no further apart are as good as equal."""
EQUAL = 0.001
"""Bounds no further apart, relatively, are one line in the figure."""
AT = "place"
ESTIMATES = {"unknown": "-", "known": "--"}
"""Whether the number R of participants is known; with the style of a line."""


def run(config: Config) -> Outcome:
    return judge(config, trained(config))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """Figure and claims, from the runs; bounds are computed again."""
    result = xr.merge([bounds(config), ratios(config), result[["accuracy", "failed"]]]).assign_attrs(result.attrs)
    setting = config.setting._replace(groups=config.num_users[-1:])
    caveats = [
        f"(a) eqs. 21 and 23, with exact moments of 1/R and with the paper's approximations (eqs. 24, 25); "
        f"d = {config.problem.num_params}, L = {config.clip:g}, sigma^2 = {config.noise_variance}, N0 = "
        f"{config.receiver_noise:g}, lambda = {config.problem.convexity}, mu = {config.problem.smoothness}",
        f"(b) {training.describe(setting).partition('; divided')[0]}, T = {config.rounds}, "
        f"{config.setting.repeats} seed(s); K = {' and '.join(map(str, config.num_users))}",
        BANDS,
        "(b) eq. 9 divides by R and zeta, eq. 10 by m; Adam is nearly independent of the scale of a gradient",
        training.failures(result),
    ]
    return Outcome(figure(config, result), result, claims(config, result), caveats)


def bounds(config: Config) -> xr.Dataset:
    """G^2 by K and p: `moment` with exact moments by `estimate`, and `taylor`, the known one as the paper has it."""
    found = [[_moments(config, k, p) for p in config.participation] for k in config.num_users]
    values = np.array(found)
    dims = ("K", "p")
    coordinates = {"K": list(config.num_users), "p": list(config.participation), "estimate": list(ESTIMATES)}
    return xr.Dataset({"moment": ((*dims, "estimate"), values[..., :2]), "taylor": (dims, values[..., 2])}, coordinates)


def ratios(config: Config) -> xr.Dataset:
    """Eq. 21 over eq. 23 by K and `fine`, a fine grid of p: with `exact` moments of 1/R, and `approximate`."""
    p = np.linspace(0.05, 1, 96)
    found = np.array([[_moments(config, k, each) for each in p] for k in config.num_users])
    unknown, known, taylor = np.moveaxis(found, -1, 0)
    values = {"exact": (("K", "fine"), unknown / known), "approximate": (("K", "fine"), unknown / taylor)}
    return xr.Dataset(values, {"K": list(config.num_users), "fine": p})


def _moments(config: Config, k: int, p: float) -> tuple[float, float, float]:
    kinds = (theory.moment_unknown, theory.moment_known, theory.moment_known_taylor)
    setting = theory.Round(k, p, config.clip, config.noise_variance, config.receiver_noise)
    found = [float(kind(config.problem, setting)) for kind in kinds]
    return found[0], found[1], found[2]


def trained(config: Config) -> xr.Dataset:
    """`accuracy` `[K, estimate, p, seed, iteration]` and `failed`."""
    by_users = [
        xr.concat([_train(config, k, name) for name in ESTIMATES], xr.Variable("estimate", list(ESTIMATES)))
        for k in config.num_users
    ]
    return cast(xr.Dataset, xr.concat(by_users, xr.Variable("K", list(config.num_users))))


def _train(config: Config, k: int, estimate: str) -> xr.Dataset:
    setting = config.setting._replace(groups=(k,), known_count=estimate == "known")
    fixed: Any = {"clip": [config.clip], "noise_variance": [config.noise_variance]}
    runs = training.run(
        setting, {"participation": config.participation} | fixed, rounds=config.rounds, seed=config.seed
    )
    return runs[["accuracy", "failed"]].squeeze(list(fixed), drop=True).rename(participation="p")


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    ratio = result.moment.sel(estimate="unknown") / result.moment.sel(estimate="known")
    paper = result.moment.sel(estimate="unknown") / result.taylor
    places = [(k, p) for k in config.num_users for p in config.participation]
    of = lambda name, k, p: result.accuracy.sel(K=k, p=p, estimate=name)
    ends = lambda name: xr.concat([last(of(name, *place), "iteration").reset_coords(drop=True) for place in places], AT)
    apart, names = ends("unknown") - ends("known"), np.array([f"K = {k}, p = {p:g}" for k, p in places])
    gaps, sure = over_seeds(apart), over_seeds(apart, len(places))
    clear, worse = names[sure.above().values > 0], names[sure.at_least(TIE).values < 0]
    by_size = lambda values: "; ".join(f"K = {k}: {_by_p(config, values.sel(K=k).values)}" for k in config.num_users)
    lower = result.moment.diff("p") < 0
    steps = result.accuracy.isel(iteration=-1).diff("p")
    better = over_seeds(steps)
    return [
        Claim(
            "bound", "3a: an unknown number converges faster than a known one, always", "bound below, at every p",
            by_size(ratio), bool((ratio <= 1 + EQUAL).all()),
            f"the bound of eq. 21 is not above that of eq. 23, with exact moments, by more than {EQUAL:.1%}, at any p",
            f"their ratio by p; with eqs. 24 and 25 {by_size(paper)}", differs="",
        ),
        Claim(
            "accuracy", "3b: and is more accurate, always", "above, at every p",
            "; ".join(f"{name}: {Gap(gaps.mean[i], gaps.noise[i]).text()}" for i, name in enumerate(names)),
            decided(better_somewhere(apart, TIE, AT)),
            f"nowhere worse by {100 * TIE:g} points or more, and better somewhere, 95% intervals, for the latter of "
            "all places together: a tie is no failure",
            f"points at the end, unknown less known; better at {'; '.join(clear) or 'none'}; "
            f"worse at {'; '.join(worse) or 'none'}", why=Open.UNDECIDED,
        ),
        Claim(
            "participants", "3: more participants, lower bounds and more accuracy", "with p",
            f"bounds: {int(lower.sum())} of {lower.size} steps; accuracy: {int((better.above() > 0).sum())} of "
            f"{better.mean.size} above 0, least {_least(better).text()}",
            bool(lower.all()) and decided(better.at_least(TIE)),
            f"bounds at every step of p; accuracy nowhere less by {100 * TIE:g} points or more, both estimates",
            why=Open.UNDECIDED,
        ),
    ]  # fmt: skip


def _least(gaps: Gap) -> Gap:
    """The lowest of several."""
    flat = [values.stack(place=values.dims) for values in gaps]
    return Gap(*flat).sel(place=flat[0].idxmin("place").item())


def _by_p(config: Config, values: np.ndarray) -> str:
    return ", ".join(f"{value:.3g} ({p:g})" for p, value in zip(config.participation, values, strict=True))


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(14, 4 * len(config.num_users)), layout="constrained")
    panels = picture.subplots(len(config.num_users), 3, squeeze=False)
    for k, (left, middle, right) in zip(config.num_users, panels, strict=True):
        _bounds(left, config, result.sel(K=k), f"(a) bounds, K = {k}")
        _ratios(middle, result.sel(K=k), f"(a) their ratio, K = {k}")
        _accuracy(right, config, result.sel(K=k), f"(b) {config.setting.task.dataset}, K = {k}")
    return picture


def _ratios(axes: Axes, of: xr.Dataset, title: str) -> None:
    axes.axhline(1, color="black", linewidth=0.8)
    axes.plot(of.fine, of.exact, color=COLOURS[0], linewidth=1.6, label="exact moments of 1/R")
    axes.plot(of.fine, of.approximate, "--", color=COLOURS[1], linewidth=1.4, label="eqs. 24, 25")
    finish(axes, title, size=8, xlabel="participation p", ylabel="bound, R unknown / R known")


def _bounds(axes: Axes, config: Config, of: xr.Dataset, title: str) -> None:
    t = np.arange(1, config.iterations + 1)
    for colour, p in zip(COLOURS, config.participation, strict=False):
        for name, style in ESTIMATES.items():
            scale = theory.convergence_bound(config.problem, of.moment.sel(p=p, estimate=name).item(), 1)
            axes.plot(t, scale / t, style, color=colour, linewidth=1.5, label=f"p = {p:g}, R {name}")
    scales: Any = {"xscale": "log", "yscale": "log"}
    finish(axes, title, size=8, legend={"ncols": 2}, xlabel="iteration", ylabel="bound on E F(w) - F*", **scales)


def _accuracy(axes: Axes, config: Config, of: xr.Dataset, title: str) -> None:
    for colour, p in zip(COLOURS, config.participation, strict=False):
        for name, style in ESTIMATES.items():
            band(axes, of.accuracy.sel(p=p, estimate=name), "iteration", "", colour, style)
    finish(axes, title, xlabel="iteration", ylabel="test accuracy")

"""Fig. 2 and Table I: leakage by the number of users, of one round and of many, and its order in K."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats

from experiments.claims import Claim, Source
from experiments.drawing import finish
from experiments.harness import Outcome
from experiments.wireless.schemes import ORDERS, SCHEMES, Noise, leakage, sampled_round
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.theory import wireless as theory


class Config(NamedTuple):
    """The caption's noise; K from 20, below which p* = 1. The paper does not give T and dt."""

    noise: Noise = Noise()
    most: int = 10_000
    points: int = 40
    fit: tuple[int, int] = (100, 1000)
    far: tuple[int, int] = (100_000, 1_000_000)
    iterations: tuple[int, ...] = (10, 100, 1000)
    slack: float = 1e-4  # dt
    seed: int = 0


EXACT = dict.fromkeys(SCHEMES, "--") | {SCHEMES[1]: ":"}
"""Line styles of the exact figures; those of the orthogonal schemes coincide."""
AGREES = 0.05
"""Of a slope with the order of Table I."""


def run(config: Config) -> Outcome:
    sizes = np.unique(np.geomspace(20, config.most, config.points).astype(int))
    result = xr.merge([leakage(sizes, config.noise), composed(config, sizes), slopes(config)])
    caveats = [
        "L = 1, sigma = 3, N0 = 3, which the exact figures count and the paper's bounds do not; delta_l = delta' = "
        "1e-4; sampled schemes at p = p*(K)",
        "the four schemes have four deltas: delta_l, p delta_l, delta_l and delta_c; each exact figure has the same",
        "exact: for replacement, R revealed to the server (orthogonal: the silent links too)",
        f"of Table I the paper prints only wireless sampled (eq. 14), the others follow from what it cites; (b) dt = "
        f"{config.slack:g}, eq. 16, composed homogeneously; slopes are least squares of log eps on log K with "
        "95% intervals, which measure how straight a curve without noise is",
    ]
    return Outcome(figure(config, result), result, [*orders(config, result), *others(config, result)], caveats)


def composed(config: Config, sizes: np.ndarray) -> xr.Dataset:
    """`total` eps_T and `total_delta` of the paper, and `total_exact` at that delta where it is below 1."""
    totals, deltas, exact = np.full((3, len(config.iterations), len(sizes)), np.nan)
    for j, k in enumerate(sizes):
        setting, eps, delta = sampled_round(int(k), config.noise)
        for i, t in enumerate(config.iterations):
            totals[i, j], deltas[i, j] = theory.compose_homogeneous(eps, delta, t, config.slack)
            exact[i, j] = theory.rigorous_epsilon(setting, deltas[i, j], rounds=t)
    dims = ("T", "K")
    values = {"total": (dims, totals), "total_delta": (dims, deltas), "total_exact": (dims, exact)}
    return xr.Dataset(values, {"T": list(config.iterations), "K": sizes})


def slopes(config: Config) -> xr.Dataset:
    """`slope` and `margin`, half the width of its 95% interval, by `of`, `window` of K and `scheme`."""
    windows, found = (config.fit, config.far), np.full((2, 2, 2, len(SCHEMES)), np.nan)
    for i, window in enumerate(windows):
        sizes = np.geomspace(*window, 12).astype(int)
        of = leakage(sizes, config.noise)
        for j, values in enumerate((of.eps, of.exact)):
            found[:, j, i] = np.array([slope(sizes, values.sel(scheme=name).values) for name in SCHEMES]).T
    names = [f"{low:,} to {high:,}" for low, high in windows]
    coordinates = {"of": ["paper", "exact"], "window": names, "scheme": list(SCHEMES)}
    dims = tuple(coordinates)
    return xr.Dataset({"slope": (dims, found[0]), "margin": (dims, found[1])}, coordinates)


def slope(sizes: np.ndarray, eps: np.ndarray) -> tuple[float, float]:
    """Of log eps in log K, and half the width of its 95% interval; NaN where eps is 0."""
    if (eps <= 0).any():
        return np.nan, np.nan
    fit: Any = stats.linregress(np.log(sizes), np.log(eps))
    return fit.slope, np.nan_to_num(fit.stderr) * stats.t.ppf(0.975, sizes.size - 2)  # NaN where eps is constant


def orders(config: Config, result: xr.Dataset) -> list[Claim]:
    """Table I. An order O(K^b) is an upper bound for large K, so it is judged on the far window, from one side."""
    near, far = result.window.values
    said = []
    for name, order in zip(SCHEMES, ORDERS, strict=True):
        of = result.sel(scheme=name)
        said.append(Claim(
            f"order: {name}", f"Table I: {name}", f"O(K^{order:g})", _slope_text(of, "paper", far),
            bool(of.slope.sel(of="paper", window=far) < order + AGREES), f"at most {AGREES} above it, for large K",
            f"slope on K = {far}; on {near} {_slope_text(of, 'paper', near)}; exact figures: "
            f"{_slope_text(of, 'exact', far)}, on {near} {_slope_text(of, 'exact', near)}",
        ))  # fmt: skip
    return said


def _slope_text(of: xr.Dataset, kind: str, window: str) -> str:
    at = of.sel(of=kind, window=window)
    return "0 (eps is 0 at that delta)" if np.isnan(at.slope) else f"{at.slope:.3f} +- {at.margin:.3f}"


def others(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 2."""
    first = crossing(config.noise)
    delta = sampled_round(first, config.noise).delta
    totals, exact = result.total.values, result.total_exact.values
    large = result.isel(K=-1)
    by_rounds = lambda values: ", ".join(f"{values.sel(T=t):.3g} (T = {t})" for t in config.iterations)
    return [
        Claim(
            "sampled-wireless-least", "2a: wireless sampling leaks least of the four schemes, for large K",
            "least", f"from K = {first} on", _is_least_from(result, first),
            "least at every K of the figure from some K on",
            f"by the bounds; at K = {first} at delta {delta:.3g}, all users at {config.noise.delta_local:g}; exact "
            f"figures: less than all users {_exact_order(result)}",
        ),
        Claim(
            "falls-with-k", "2b: eps_T falls with K, towards 0", "falls",
            f"at K = {large.K.item():,}: {by_rounds(large.total)}",
            bool((np.diff(totals, axis=1) < 0).all() and (np.diff(exact, axis=1) <= 1e-9).all()),
            "at every K, exact figures at the same delta too",
        ),
        Claim(
            "guarantee", "2b: the delta_T of that eps_T vanishes, too", "", by_rounds(large.total_delta),
            bool((large.total_delta < large["T"] * config.noise.delta_prime).any()), "below T delta' for some T",
            f"at K = {large.K.item():,}; by algebra: delta_c is at least delta', which does not fall with K, so "
            "delta_T is at least T delta'; the paper prints no delta_T", Source.OURS,
        ),
    ]  # fmt: skip


def crossing(noise: Noise) -> int:
    """The first K from which on eq. 14 at p* is below c/sqrt(K)."""
    sizes = np.arange(20, 1000)
    sampled = [sampled_round(int(k), noise) for k in sizes]
    gap = [one.epsilon - theory.unsampled_epsilon(one.setting, noise.delta_local) for one in sampled]
    return int(sizes[np.flatnonzero(np.array(gap) >= 0).max() + 1])


def _is_least_from(result: xr.Dataset, first: int) -> bool:
    """Whether the last scheme's eps is the least at every K of the figure from `first` on, and there is such a K."""
    eps = result.eps.isel(K=np.flatnonzero(result.K.values >= first))
    return bool(eps.K.size and (eps.sel(scheme=SCHEMES[-1]) <= eps.min("scheme")).all())


def _exact_order(result: xr.Dataset) -> str:
    below = result.exact.sel(scheme=SCHEMES[3]) <= result.exact.sel(scheme=SCHEMES[2])
    return "at all K shown" if bool(below.all()) else f"at {int(below.sum())} of {below.size} K shown"


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(13, 4.6), layout="constrained")
    one, many, deltas = picture.subplots(1, 3)
    for colour, name in zip(COLOURS, SCHEMES, strict=False):
        of = result.sel(scheme=name)
        one.plot(of.K, of.eps, color=colour, linewidth=1.7, label=name)
        one.plot(of.K, of.exact.where(of.exact > 0), EXACT[name], color=colour, linewidth=1.3)
    for colour, t in zip(COLOURS, config.iterations, strict=False):
        of = result.sel(T=t)
        many.plot(of.K, of.total, color=colour, linewidth=1.7, label=f"T = {t:,}")
        many.plot(of.K, of.total_exact.where(of.total_exact > 0), "--", color=colour, linewidth=1.3)
        deltas.plot(of.K, of.total_delta, color=colour, linewidth=1.7)
        deltas.axhline(t * config.noise.delta_prime, color=colour, linewidth=1, linestyle=":")
    deltas.plot([], [], ":", color="grey", label="T delta', colours as in (b)")
    for axes, label, title in (
        (one, "eps of a round", "(a) Table I, at four deltas"),
        (many, "eps_T", "(b) wireless, sampled, T rounds"),
        (deltas, "delta_T", "at this delta"),
    ):
        if axes is not deltas:
            axes.plot([], [], "--", color="grey", label="exact, same delta")
        finish(axes, title, xscale="log", yscale="log", xlabel="users K", ylabel=label)
    return picture

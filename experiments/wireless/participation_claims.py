"""What is claimed of the number of participants, and the picture."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from experiments.claims import Claim, Open, Source, joined
from experiments.comparison import decided, gap, last, over_seeds
from experiments.drawing import band, colours_of, finish
from fedjax_priv.analysis.line_styles import COLOURS

FIGURES = ("Lemma 2", "Lemma 2 with N0", "analytic", "analytic with N0", "exact")
NOISELESS = "no noise"
SLOPE, NEAR = -0.5, 0.05
"""Order that the paper states, and how far a fitted slope may be from it."""


def claims(config: Any, result: xr.Dataset) -> list[Claim]:
    found = [_accuracy(config, result), _noise(result), *(_order(result, name) for name in FIGURES), _falls(result)]
    return [claim if claim.id == "more-accurate" else claim._replace(differs="") for claim in found]


def slopes(result: xr.Dataset) -> xr.DataArray:
    """Of the last accuracy against p, `[case, seed]`: least squares."""
    fitted = last(result.accuracy, "iteration").polyfit("participation", 1)
    return fitted.polyfit_coefficients.sel(degree=1, drop=True)


def _accuracy(config: Any, result: xr.Dataset) -> Claim:
    slope, noisy = over_seeds(slopes(result)), result.noisy.values
    ends = 100 * last(result.accuracy, "iteration").mean("seed")
    row = lambda case: " / ".join(f"{value:.1f}%" for value in ends.sel(case=case).values)
    return Claim(
        "more-accurate", "more participation, more accuracy", "rises with p",
        ", ".join(f"{slope.sel(case=case).text()} points per unit of p, fitted ({case})" for case in noisy),
        decided(slope.sel(case=noisy).above()), "the interval of the fitted slope is above 0, at every sigma^2",
        f"by p: {'; '.join(f'{row(case)} ({case})' for case in noisy)}", why=Open.UNDECIDED,
        differs=f"{config.setting.task}, K = {config.setting.num_users}, no power limit",
    )  # fmt: skip


def _noise(result: xr.Dataset) -> Claim:
    """A control: the slope is there because noise is shared, or it would be there without noise."""
    slope = slopes(result)
    without = slope.sel(case=NOISELESS, drop=True)
    more = gap(slope.sel(case=result.noisy.values), without)
    return Claim(
        "for-noise", "it is for the noise that more participation helps", "",
        f"{over_seeds(without).text()} points per unit of p, fitted, without noise; "
        + ", ".join(f"{more.sel(case=case).text()} more ({case})" for case in result.noisy.values),
        decided(more.above()), "without noise the slope is smaller: the interval of the difference is above 0",
        source=Source.OURS, why=Open.UNDECIDED,
    )  # fmt: skip


def orders(result: xr.Dataset, by: str) -> xr.DataArray:
    """Fitted slopes of log eps against log(1 + kappa), `[noisy, figure]`."""
    eps, shown = result[f"eps_by_{by}"], result[f"shown_by_{by}"]
    fit = lambda values: np.polyfit(np.log(shown.values), np.log(values), 1)[0]
    return xr.apply_ufunc(fit, eps, input_core_dims=[[by]], vectorize=True)


def _order(result: xr.Dataset, name: str) -> Claim:
    """By p, of which the paper speaks, and by K."""
    found = {by: orders(result, by).sel(figure=name).values for by in ("p", "K")}
    said = lambda by: " / ".join(f"{value:.3f}" for value in found[by])
    by_algebra = "by algebra: kappa is defined so" if name == FIGURES[0] else ""
    return Claim(
        f"order: {name}", f"eps_l falls as 1 / sqrt(1 + kappa): {name}", f"slope {SLOPE:g}",
        f"{said('p')} by p, {said('K')} by K", bool((abs(np.concatenate(list(found.values())) - SLOPE) <= NEAR).all()),
        f"every slope of log eps against log(1 + kappa) is within {NEAR:g} of it",
        joined(f"by sigma^2, {', '.join(map(str, result.noisy.values))}", by_algebra),
        source=Source.PAPER if name == FIGURES[0] else Source.OURS,
    )  # fmt: skip


def _falls(result: xr.Dataset) -> Claim:
    """Who joins more often hides in more noise, and is there more often."""
    exact = result.eps_by_p.sel(figure="exact")
    text = ", ".join(
        f"{float(row[0]):.3g} at p = {result.p.values[0]:g}, {float(row[-1]):.3g} at 1 ({case})"
        for case, row in zip(result.noisy.values, exact.values, strict=True)
    )
    lemma = result.eps_by_p.sel(figure="Lemma 2 with N0")
    return Claim(
        "exact-falls", "more participation leaks less, by the exact figure too", "falls with p", text,
        bool((exact.diff("p") < 0).all()), "the exact eps falls at every step of p, at every sigma^2",
        "sampling hides a user too, and with p there is less of it; at the delta of Lemma 2", source=Source.OURS,
        control=f"Lemma 2 with N0 falls {'at every step' if bool((lemma.diff('p') < 0).all()) else 'not'}",
    )  # fmt: skip


def figure(config: Any, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(13, 4.4), layout="constrained")
    accuracy, by_p, by_size = picture.subplots(1, 3)
    ends = last(result.accuracy, "iteration")
    for case, colour in colours_of(result.case.values, shaded=False).items():
        band(accuracy, ends.sel(case=case), "participation", str(case), colour, "o-")
    about = f"{config.setting.task}, K = {config.setting.num_users}, T = {config.rounds:,}"
    finish(accuracy, about, xlabel="p", ylabel="test accuracy at the end", ylim=(None, 1), size=8)
    _leaks(by_p, result, "p", "K = 200")
    _leaks(by_size, result, "K", "p = 0.3")
    return picture


def _leaks(axes: Axes, result: xr.Dataset, by: str, about: str) -> None:
    for name, colour in zip(FIGURES, COLOURS, strict=False):
        for case, style in zip(result.noisy.values, ("-", "--"), strict=False):
            eps = result[f"eps_by_{by}"].sel(figure=name, noisy=case)
            label = f"{name}, {case}" if style == "-" else None
            axes.plot(result[f"shown_by_{by}"], eps, style, marker=".", color=colour, label=label)
    finish(axes, f"a round, {about}", xlabel="1 + kappa", ylabel="eps", xscale="log", yscale="log", size=7)
    axes.xaxis.set_minor_formatter(NullFormatter())

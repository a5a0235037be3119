"""Fig. 4: honest users summed at a coordinate, and coordinates that one honest user sends, against alpha."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import ndtr

from experiments.claims import Claim, Source
from experiments.comparison import as_printed
from experiments.drawing import finish
from experiments.harness import Outcome, span
from experiments.resuming import next_run
from experiments.sparse_secagg.protocol import idle, nothing
from experiments.sparse_secagg.training import adversaries, gamma, honest
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.base import Algorithm
from fedjax_priv.leakage import observe_privacy
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import sparse_secagg
from fedjax_priv.theory import sparse_secagg as theory

PRINTED = "0.07"
"""The one revealed fraction that the paper prints, in per cent."""


class Config(NamedTuple):
    """The paper does not publish its grids of alpha and theta, d and the rounds."""

    num_clients: tuple[int, ...] = (25, 50, 75, 100)  # theta varies at the last
    alphas: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
    dropouts: tuple[float, ...] = (0.0, 0.1, 0.3, 0.45)
    dropout: float = 0.3  # where N varies
    num_params: int = 165_354
    rounds: int = 20
    seed: int = 0


def differs(config: Config, papers: Config) -> str:
    """Nothing: the paper gives no d, rounds and grid, and fractions of coordinates do not depend on them."""
    del config, papers
    return ""


def system(config: Config, num_clients: int, alpha: float | jax.Array, dropout: float | jax.Array) -> Algorithm:
    return sparse_secagg(
        idle(config.num_params), num_clients=num_clients, alpha=alpha, dropout=dropout, expand="dense", elide=True,
        observe=observe_privacy(honest(num_clients)),
    )  # fmt: skip


def run(config: Config) -> Outcome:
    *few, most = config.num_clients
    parts = [_sweep(config, n, (config.dropout,)) for n in few] + [_sweep(config, most, config.dropouts)]
    by_size = [part.sel(dropout=config.dropout, drop=True) for part in parts]
    result = xr.concat(by_size, xr.Variable("num_clients", list(config.num_clients)))
    result["honest_at_dropout"] = parts[-1].honest_mean
    return judge(config, result)


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """Figure and claims, from the data of a run."""
    caveats = [
        f"d = {config.num_params:,}, {config.rounds} rounds, A = N/3 rounded; no training",
        "masks were elided; selections come from thresholds (expand='dense'), so that alpha varies in one program",
        "bands: minimum and maximum over rounds, whose width shrinks with d",
    ]
    return Outcome(figure(config, result), result, [*_counts(config, result), *_revealed(config, result)], caveats)


def _sweep(config: Config, num_clients: int, dropouts: tuple[float, ...]) -> xr.Dataset:
    run = sweep(
        lambda alpha, dropout: system(config, num_clients, alpha, dropout),
        {"alpha": list(config.alphas), "dropout": list(dropouts)},
        jax.random.key(config.seed), jnp.zeros(config.num_params), nothing(num_clients),
        rounds=config.rounds, every=max(1, config.rounds // 10), keep=next_run(), progress=False,
    )  # fmt: skip
    return run[["honest_mean", "honest_min", "revealed", "revealed_all"]].drop_vars("client", errors="ignore")


def _counts(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 4(a)."""
    n, alpha = config.num_clients[-1], np.array(config.alphas)
    values = result.honest_at_dropout.mean("round").transpose("alpha", "dropout").values
    grid = theory.Setting(n, alpha[:, None], np.array(config.dropouts), gamma(n))
    limit, exact = theory.aggregated_honest_clients_limit(grid), theory.aggregated_honest_clients(grid)
    fit = np.array([np.corrcoef(alpha, column)[0, 1] ** 2 for column in values.T])
    near = np.abs(values - limit) < 4 * _error(config, grid) + exact - limit
    sizes = (n, 10_000, 1_000_000)
    reached = [reaches(theory.Setting(size, 0.1, config.dropout, 1 / 3)) for size in sizes]
    return [
        Claim(
            "linear", f"mean X(l) nearly linear in alpha, N = {n}", "nearly linear", f"R^2 {span(fit, 4)}",
            bool(fit.min() > 0.98), "R^2 above 0.98",
            f"alpha from {alpha[0]} to {alpha[-1]}, where p bends as 1 - exp(-alpha)",
        ),
        Claim(
            "mean", f"that mean is T = (1 - exp(-alpha)) (1-theta) (1-gamma) N, N = {n}", "T (Theorem 2)",
            f"off by up to {np.abs(values / limit - 1).max():.1%}", bool(np.all(near)),
            "within 4 standard errors, plus the excess of the exact p (1-theta) H over T at finite N",
        ),
        Claim(
            "floor", "at least T honest users at a coordinate, with probability -> 1 as N grows", "P[X(l) >= T] -> 1",
            ", ".join(f"{part:.3f} (N = {size:,})" for part, size in zip(reached, sizes, strict=True)),
            bool(reached[-1] > 0.99), "above 0.99 at the largest N",
            "alpha = 0.1, by the exact moments of X(l) and the normal law; T is its mean, so it tends to 1/2; "
            f"least X(l) of the runs, N = {n}: {int(result.honest_min.sel(num_clients=n, alpha=0.1).min())}",
            differs="",
        ),
    ]  # fmt: skip


def reaches(setting: theory.Setting) -> float:
    """P[X(l) >= T] for many users, by the normal law with the exact moments, and half a user for the steps of X."""
    mean, variance = theory.aggregated_honest_clients(setting), theory.aggregated_honest_clients_variance(setting)
    least = np.ceil(theory.aggregated_honest_clients_limit(setting))
    return float(ndtr((mean + 0.5 - least) / np.sqrt(variance)))


def _error(config: Config, grid: theory.Setting) -> np.ndarray:
    """Standard error of the mean of X(l): survivors are drawn once a round, selections at every coordinate."""
    n, alpha, dropout, gamma = grid
    survivors = (1 - gamma) * n * dropout * (1 - dropout) * theory.selection_probability(n, alpha) ** 2
    selections = theory.aggregated_honest_clients_variance(grid) / config.num_params
    return np.sqrt((survivors + selections) / config.rounds)


def _revealed(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 4(b)."""
    mean = result.revealed_all.mean("round")
    larger = mean.sel(num_clients=mean.num_clients > 25)
    high = larger.sel(alpha=mean.alpha >= 0.1)
    falls = high.isel(alpha=0) / np.maximum(high.isel(alpha=-1), 1e-6)
    by_size = mean.sel(alpha=0.1).values
    peak = larger.idxmax("alpha").values
    sizes, alpha = mean.num_clients.values.tolist(), mean.alpha.values
    exact = np.array([theory.revealed_fraction(n, adversaries(n), alpha) for n in sizes])
    off = np.abs(mean.values - exact)
    error = np.sqrt(exact * (1 - exact) / config.num_params / config.rounds)
    most = sizes[-1]
    printed = [100 * float(theory.revealed_fraction(100, a, 0.2)) for a in (33, 34)]
    measured = f", {100 * mean.sel(num_clients=most, alpha=0.2).item():.3f}% in the runs" if 0.2 in alpha else ""
    return [
        Claim(
            "revealed-by-alpha", "revealed fraction falls steeply with alpha for N > 25", "falls",
            f"by a factor {falls.min().item():.3g} or more from alpha 0.1 to {alpha[-1]}",
            bool((high.diff("alpha") <= 0).all() and (falls > 5).all()),
            "by more than 5 times, and no rise after the peak",
            f"it rises before: largest at alpha = {span(peak)} of the grid",
        ),
        Claim(
            "revealed-by-n", "and with N, at alpha = 0.1", "falls", ", ".join(f"{part:.3f}" for part in by_size),
            bool((np.diff(by_size) < 0).all()), "at every N", "all honest users, dropouts not counted",
        ),
        Claim(
            "revealed-digits", "revealed fraction at alpha = 0.2, N = 100", f"{PRINTED}%",
            f"{printed[0]:.3f}% (A = 33), {printed[1]:.3f}% (A = 34){measured}",
            any(as_printed(value, PRINTED) for value in printed), "to the printed digits, for N/3 rounded down or up",
            "exact, all honest users, dropouts not counted; with dropouts, survivors only, "
            f"{100 * float(theory.revealed_fraction(100, 33, 0.2, 0.3)):.2f}%", differs="",
        ),
        Claim(
            "revealed-formula", "it is H (1 - (1-a)^(N-H)) (1-a)^(H(H-1)/2 + (H-1)(N-H))", "",
            f"off by up to {off.max():.4f}", bool(np.all(off < 4 * error)),
            "within 4 standard errors", source=Source.OURS,
        ),
    ]  # fmt: skip


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(11, 4.4), layout="constrained")
    counts, revealed = picture.subplots(1, 2)
    _plot_counts(counts, config, result)
    _plot_revealed(revealed, config, result)
    return picture


def _plot_counts(axes: Axes, config: Config, result: xr.Dataset) -> None:
    n, alpha = config.num_clients[-1], result.alpha.values
    for i, theta in enumerate(config.dropouts):
        rounds = result.honest_at_dropout.sel(dropout=theta)
        _band(axes, alpha, rounds, f"theta = {theta}", i)
        setting = theory.Setting(n, alpha, theta, gamma(n))
        axes.plot(alpha, theory.aggregated_honest_clients_limit(setting), "k:", linewidth=1)
    axes.plot([], [], "k:", linewidth=1, label="T of Theorem 2")
    finish(axes, f"(a) X(l), N = {n}", xlabel="alpha", ylabel="honest survivors, mean over coordinates")


def _plot_revealed(axes: Axes, config: Config, result: xr.Dataset) -> None:
    alpha = result.alpha.values
    for i, n in enumerate(config.num_clients):
        _band(axes, alpha, result.revealed_all.sel(num_clients=n), f"N = {n}", i)
        axes.plot(alpha, theory.revealed_fraction(n, adversaries(n), alpha), "k:", linewidth=1)
        survivors = result.revealed.sel(num_clients=n).mean("round")
        axes.plot(alpha, survivors, "--", color=COLOURS[i], linewidth=1)
    axes.plot([], [], "k:", linewidth=1, label="exact")
    axes.plot([], [], "--", color="grey", linewidth=1, label=f"survivors only, theta = {config.dropout}")
    title = "(b) sent by exactly one honest user"
    finish(axes, title, xlabel="alpha", ylabel="fraction of coordinates", ylim=(0, None))


def _band(axes: Axes, alpha: np.ndarray, rounds: xr.DataArray, label: str, i: int) -> None:
    axes.plot(alpha, rounds.mean("round"), "o-", color=COLOURS[i], markersize=3.5, linewidth=1.6, label=label)
    axes.fill_between(alpha, rounds.min("round"), rounds.max("round"), color=COLOURS[i], alpha=0.2, linewidth=0)

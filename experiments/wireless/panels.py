"""How the figure of the accountants is drawn."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import finish
from experiments.wireless.accounting import CURVES, Config
from fedjax_priv.analysis.line_styles import COLOURS

_LOGS: Any = {"size": 8, "xscale": "log", "yscale": "log"}


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(14, 8), layout="constrained")
    axes = picture.subplots(2, 3)
    for panel, clip in zip(axes[0, :2], config.clips, strict=True):
        _by_participation(panel, config, result.sel(clip=clip))
    _by_users(axes[0, 2], result)
    _by_rounds(axes[1, 0], config, result)
    _pair(axes[1, 1], config, result)
    _removed(axes[1, 2], config, result)
    return picture


def _by_participation(axes: Axes, config: Config, of: xr.Dataset) -> None:
    for colour, (name, label) in zip(COLOURS, CURVES.items(), strict=False):
        eps = of.eps.sel(curve=name)
        axes.plot(of.p, eps.where(np.isfinite(eps) & (eps > 0)), color=colour, linewidth=1.6, label=label)
    paper, removal = of.eps.sel(curve="paper"), of.eps.sel(curve="removal")
    below = paper.where(paper < removal)
    axes.plot(of.p, below, "x", color="black", markersize=4, label="paper below exact removal")
    axes.axvspan(0, np.sqrt(np.log(2) / 2 / config.num_users), color="grey", alpha=0.3, label="no bound by the paper")
    top = float(of.eps.sel(curve="paper", p=slice(0.25, None)).max())
    finish(
        axes, f"K = {config.num_users}, L = {of.coords['clip'].item():g}, at delta_c of eq. 13", size=8, yscale="log",
        xlabel="participation p", ylabel="eps of a round", xlim=(0, 1.02), ylim=(None, 5 * top),
    )  # fmt: skip


def _by_users(axes: Axes, result: xr.Dataset) -> None:
    labels = {"paper": "paper, eq. 14", "replacement": "(b) exact, replacement", "known": "(c) exact, K_t known",
              "all": "exact, all users, no sampling"}  # fmt: skip
    for colour, (name, label) in zip((COLOURS[0], COLOURS[2], COLOURS[4], COLOURS[5]), labels.items(), strict=True):
        axes.plot(result.K, result.scaled.sel(line=name), color=colour, linewidth=1.6, label=label)
    finish(axes, "p = p*(K), noise of Fig. 2, at delta_c of eq. 14", **_LOGS, xlabel="users K", ylabel="eps of a round")


def _by_rounds(axes: Axes, config: Config, result: xr.Dataset) -> None:
    axes.plot(result["T"], result.total, color=COLOURS[0], linewidth=1.6, label="paper, eqs. 18-20")
    axes.plot(result["T"], result.total_exact, color=COLOURS[2], linewidth=1.6, label="(b) replacement, composed")
    axes.plot(result["T"], result.total_delta, ":", color="black", linewidth=1.3, label="delta_T")
    title = f"uniform p = {config.uniform:g}, L = {config.clips[-1]:g}, at delta_T"
    finish(axes, title, **_LOGS, xlabel="rounds T", ylabel="eps_T, delta_T")


def _pair(axes: Axes, config: Config, result: xr.Dataset) -> None:
    axes.plot(result.pair_eps, result.pair_exact, color=COLOURS[2], linewidth=1.6, label="(b) exact, replacement")
    _bars(axes, result.pair_eps.values, result, "pair")
    title = f"audit: worst pair, K = {config.pair.setting.num_users}, p = {config.pair.setting.participation:g}"
    finish(axes, title, size=8, xlabel="eps", ylabel="delta", ylim=(0, None))


def _removed(axes: Axes, config: Config, result: xr.Dataset) -> None:
    eps = result.removed_eps
    axes.plot(eps, result.removed_rigorous, color=COLOURS[3], linewidth=1.6, label="(b) exact, removal, R revealed")
    axes.plot(eps, result.removed_exact, "--", color="black", linewidth=1.2, label="exact, gradients 0, R hidden")
    _bars(axes, eps.values, result, "removed")
    axes.plot(eps, result.removed_claimed, "v", color=COLOURS[0], markersize=6, label="paper, Theorem 1")
    title = f"audit: removal, K = {config.removed.setting.num_users}, p = {config.removed.setting.participation:g}"
    clips = ", ".join(f"L = {clip:g}" for clip in result.removed_clip.values)
    lowest = float(result.removed_claimed.min()) / 3
    finish(axes, title, **_LOGS, xlabel=f"eq. 13's eps, at {clips}", ylabel="delta", ylim=(lowest, None))


def _bars(axes: Axes, x: np.ndarray, result: xr.Dataset, name: str) -> None:
    found, low, high = (result[name + part].values for part in ("", "_low", "_high"))
    low = np.maximum(low, 1e-6)
    ends = np.maximum([found - low, high - found], 0)
    axes.errorbar(x, found, ends, fmt="o", color=COLOURS[1], markersize=4, capsize=3, linewidth=1.2, label="measured")

"""Fig. 7: accuracy by iteration for several privacy noises, a network with a hidden layer."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments import harness
from experiments.claims import Claim
from experiments.wireless import curves, leakage, training
from experiments.wireless.scales import AGAIN, FEW, TWO_LAYERS
from experiments.wireless.training import THRESHOLD, Setting


class Config(NamedTuple):
    """Channel-aware sampling; noises, L and T are not given."""

    setting: Setting = TWO_LAYERS
    noise_variances: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8, 1.6)
    clip: float = 1.0
    rounds: int = 1000
    seed: int = 0


SCALES = {
    "quick": Config(TWO_LAYERS._replace(**FEW), (0.1, 1.6), rounds=100),
    "cpu": Config(TWO_LAYERS._replace(**AGAIN | {"repeats": 1}), rounds=1000),
    "paper": Config(),
}


def run(config: Config) -> harness.Outcome:
    axes = {"noise_variance": config.noise_variances, "threshold": [THRESHOLD], "clip": [config.clip]}
    runs = training.run(config.setting, axes, rounds=config.rounds, seed=config.seed).squeeze(["threshold", "clip"])
    limited = leakage.limited(runs, config.setting.groups).assign_coords(group=list(config.setting.snr_db))
    result = xr.Dataset({"accuracy": runs.accuracy, "limited": limited, "failed": runs.failed})
    share = 100 * limited.isel(group=0).mean("seed").values
    caveats = [
        training.describe(config.setting),
        f"channel-aware sampling, L = {config.clip:g}, T = {config.rounds:,}; lines are means over seeds, bands their "
        "range",
        "power limits " + ", ".join(f"{part:.2g}%" for part in share) + " of what 2 dB users send, by sigma^2",
        f"{int(result.failed.sum())} rounds of all runs failed and left the model as it was",
    ]
    return harness.Outcome(figure(config, result), result.assign_attrs(runs.attrs), claims(config, result), caveats)


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    last = 100 * curves.last(result.accuracy).mean("seed").values
    gaps = [
        curves.gap(*(result.accuracy.sel(noise_variance=noise) for noise in pair))
        for pair in zip(config.noise_variances, config.noise_variances[1:], strict=False)
    ]
    return [
        Claim(
            "falls-with-noise", "accuracy falls as the privacy noise grows", "falls",
            ", ".join(f"{value:.1f}% ({noise:g})" for noise, value in zip(config.noise_variances, last, strict=True)),
            bool(np.all([gap.clear for gap in gaps])),
            "at the end, by sigma^2; verdict: every step of sigma^2 costs more than two standard errors over seeds; "
            f"steps {', '.join(map(str, gaps))}",
        )
    ]  # fmt: skip


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(6.8, 4.6), layout="constrained")
    lines = [f"sigma^2 = {noise:g}" for noise in config.noise_variances]
    accuracy = result.accuracy.rename(noise_variance="line").assign_coords(line=lines)
    title = f"{config.setting.dataset}, channel-aware, L = {config.clip:g}, K = {config.setting.num_users}"
    curves.draw(picture.subplots(), accuracy, title, shaded=True)
    return picture

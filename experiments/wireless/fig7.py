"""Fig. 7: accuracy by iteration for several privacy noises."""

import itertools
from typing import NamedTuple

import xarray as xr
from matplotlib.figure import Figure

from experiments.claims import Claim, Open
from experiments.comparison import decided, last
from experiments.drawing import BANDS
from experiments.harness import Outcome
from experiments.wireless import curves, leakage, training
from experiments.wireless.training import THRESHOLD, Setting


class Config(NamedTuple):
    """Channel-aware sampling; the paper does not give its noises, L and T."""

    setting: Setting
    noise_variances: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8, 1.6)
    clip: float = 1.0
    rounds: int = 1000
    seed: int = 0


def run(config: Config) -> Outcome:
    axes = {"noise_variance": config.noise_variances, "threshold": [THRESHOLD], "clip": [config.clip]}
    runs = training.run(config.setting, axes, rounds=config.rounds, seed=config.seed).squeeze(["threshold", "clip"])
    limited = leakage.limited(runs, config.setting)
    result = xr.Dataset({"accuracy": runs.accuracy, "limited": limited, "failed": runs.failed}, attrs=runs.attrs)
    return judge(config, result)


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """Figure and claims, from the data of a run."""
    weakest = 100 * result.limited.isel(group=0).mean("seed").values
    caveats = [
        training.describe(config.setting),
        f"channel-aware sampling, L = {config.clip:g}, T = {config.rounds:,}; {BANDS}",
        f"power limits {', '.join(f'{part:.2g}%' for part in weakest)} of what 2 dB users send, by sigma^2",
        training.failures(result),
    ]
    return Outcome(figure(config, result), result, claims(config, result), caveats)


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    ends = 100 * last(result.accuracy, "iteration").mean("seed").values
    by_noise = [result.accuracy.sel(noise_variance=noise) for noise in config.noise_variances]
    steps = [curves.ahead(*pair) for pair in itertools.pairwise(by_noise)]
    falls = decided(xr.concat([step.above() for step in steps], "step"))
    return [
        Claim(
            "falls-with-noise", "accuracy falls as the privacy noise grows", "falls",
            ", ".join(f"{end:.1f}% ({noise:g})" for noise, end in zip(config.noise_variances, ends, strict=True)),
            falls, "every step of sigma^2 costs: the interval of the difference is above 0",
            f"at the end, by sigma^2; steps {', '.join(step.text() for step in steps)}", why=Open.UNDECIDED,
        )
    ]  # fmt: skip


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture, setting = Figure(figsize=(6.8, 4.6), layout="constrained"), config.setting
    title = f"{setting.task.dataset}, channel-aware, L = {config.clip:g}, K = {setting.num_users}"
    curves.draw(picture.subplots(), result.accuracy.rename(noise_variance="line"), title, "sigma^2")
    return picture

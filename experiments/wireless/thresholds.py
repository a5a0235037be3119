"""How low should the gain be from which a user always joins (h_th), and how few participants suffice?

Channel-aware sampling at several h_th, uniform sampling of as many users on average, data that are alike and shards of
two labels, and gains that change from round to round or never.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np
import xarray as xr

from experiments.harness import Outcome
from experiments.problem import load, model_of
from experiments.resuming import next_run
from experiments.wireless import leakage, threshold_claims, training
from experiments.wireless.printed import GAIN
from experiments.wireless.training import Setting
from fedjax_priv import data, metrics
from fedjax_priv.base import Algorithm
from fedjax_priv.channels import rician
from fedjax_priv.data.client_arrays import Partition
from fedjax_priv.runs.sweep import sweep

MOVING, FROZEN = 0.1, 1.0
"""rho: of the paper's channel, and of one that keeps its first gains."""


class Config(NamedTuple):
    """L, sigma^2 and T of Table II (a)."""

    setting: Setting
    thresholds: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
    compared: float = 2.0  # h_th of the paper, next to uniform sampling
    uniform: float = 0.48  # p with which as many take part
    clip: float = 1.0
    noise_variance: float = 0.1
    rounds: int = 400
    held_out: int = 10_000  # training samples that users do not have, to choose h_th by
    seed: int = 0


def moments(thresholds: Sequence[float], num_users: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of m and v over the channel, `[threshold]`: K E p and K E p (1 - p), by quadrature."""
    mean = lambda of, least: num_users * GAIN.expect(lambda h: of(min(1.0, h / least)), limit=200)
    m = [mean(lambda p: p, least) for least in thresholds]
    v = [mean(lambda p: p * (1 - p), least) for least in thresholds]
    return np.array(m), np.array(v)


def run(config: Config) -> Outcome:
    """All runs, and what came of them."""
    aware, uniform = {"threshold": list(config.thresholds)}, {"participation": [config.uniform]}
    parts = {
        "iid": (_named(trained(config, "iid", aware), "threshold", lambda h: f"h_th = {h:g}"),
                _named(trained(config, "iid", uniform), "participation", lambda p: f"uniform p = {p:g}")),
        "shards": (_named(trained(config, "shards", {"correlation": [MOVING, FROZEN]}), "correlation", _of_channel),
                   _named(trained(config, "shards", uniform), "participation", lambda p: f"uniform p = {p:g}")),
    }  # fmt: skip
    result = {name: cast(xr.Dataset, xr.concat(both, "line")) for name, both in parts.items()}
    m, v = moments(config.thresholds, config.setting.num_users)
    whole = (
        result["iid"].assign(m=("threshold", m), v=("threshold", v)).assign_coords(threshold=list(config.thresholds))
    )
    shards = result["shards"].rename({name: f"shards_{name}" for name in result["shards"].data_vars})
    return judge(config, xr.merge([whole, shards.rename(line="shards_line")], join="outer", compat="no_conflicts"))


def _of_channel(correlation: float) -> str:
    return "channel-aware" if correlation == MOVING else "channel-aware, frozen"


def _named(runs: xr.Dataset, axis: str, name: Any) -> xr.Dataset:
    return runs.rename({axis: "line"}).assign_coords(line=[name(value) for value in runs[axis].values])


def algorithm(config: Config, *, correlation: Any = MOVING, **how: Any) -> Algorithm:
    """One run; h_th is the paper's unless an axis says otherwise."""
    how = how if how else {"threshold": config.compared}
    fixed = {"clip": config.clip, "noise_variance": config.noise_variance, "fading": rician(correlation=correlation)}
    return training.algorithm(config.setting, **fixed, **how)


def trained(config: Config, partition: Partition, axes: Mapping[str, Sequence[float]]) -> xr.Dataset:
    """By axis and seed: `accuracy` and `validation` `[evaluation]`, and leakage and participation of the run."""
    setting, whole, model = config.setting, load(config.setting.task), model_of(config.setting.task)
    own, held_x, held_y = split(whole, config.held_out)
    held_out = metrics.accuracy(model, held_x, held_y)
    two_shards: dict[str, Any] = {"num_shards": 2 * setting.num_users} if partition == "shards" else {}
    runs = sweep(
        functools.partial(algorithm, config), {**axes, "seed": range(setting.repeats)},
        jax.random.key(config.seed), model.init,
        data.federate(own, setting.num_users, partition, seed=config.seed, **two_shards),
        rounds=config.rounds, every=max(1, config.rounds // setting.evaluations), keep=next_run(), progress=False,
        evaluate=metrics.together(
            metrics.accuracy(model, whole.x_test, whole.y_test),
            lambda params: {"validation": held_out(params)["accuracy"]},
        ),
    )  # fmt: skip
    return _summary(config, runs)


def split(whole: data.Dataset, held_out: int) -> tuple[data.Dataset, np.ndarray, np.ndarray]:
    """The data set without its last training samples, and these."""
    x, y = whole.x_train, whole.y_train
    return whole._replace(x_train=x[:-held_out], y_train=y[:-held_out]), x[-held_out:], y[-held_out:]


def _summary(config: Config, runs: xr.Dataset) -> xr.Dataset:
    """What is kept of runs: the largest leakage over users and rounds, and how unevenly users are weighted."""
    p = runs.join_probability
    weight = (p / p.sum("client")).mean("round") * p.sizes["client"]
    leaks = leakage.of_runs(p.expand_dims(clip=[config.clip]), config.noise_variance).squeeze("clip", drop=True)
    return leaks.assign(
        accuracy=runs.accuracy, validation=runs.validation, failed=runs.failed_rounds,
        participants=runs.counted.sum("client").mean("round"), certain=p.prod("client").mean("round"),
        least_weight=weight.min("client"), most_weight=weight.max("client"),
    )  # fmt: skip


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """Figure and claims, from the data of a run."""
    return Outcome(
        threshold_claims.figure(config, result),
        result,
        threshold_claims.claims(config, result),
        _caveats(config, result),
    )


def _caveats(config: Config, result: xr.Dataset) -> list[str]:
    return [
        training.describe(config.setting),
        f"L = {config.clip:g}, sigma^2 = {config.noise_variance:g}, T = {config.rounds:,}; Table II (a) has T = 400, "
        "its panel (b) was not run",
        f"users have all training samples but the last {config.held_out:,}, which h_th is chosen by",
        "leakage is the largest over users and rounds; exact eps is of one round at delta_c, for replacement, R "
        "revealed, all users aligned",
        training.failures(result.assign(failed=result.failed.sum() + result.shards_failed.sum())),
    ]

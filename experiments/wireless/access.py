"""One channel on which uploads add up, or a link for each user: what the introduction says of training speed."""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.claims import Claim, Open, Source, untestable
from experiments.comparison import Gap, decided, gap, last
from experiments.drawing import band, colours_of, finish
from experiments.harness import Outcome
from experiments.problem import load, model_of
from experiments.resuming import next_run
from experiments.wireless import training
from experiments.wireless.leakage import DELTA_LOCAL
from experiments.wireless.training import Setting
from fedjax_priv import data, losses, metrics
from fedjax_priv.base import Algorithm
from fedjax_priv.clients import local_sgd
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import wireless
from fedjax_priv.theory import wireless as theory

ACCESS = ("multiple", "orthogonal")


class Config(NamedTuple):
    """Uniform sampling; the paper has no experiment for this."""

    setting: Setting
    noise_variances: tuple[float, ...] = (0.1, 0.8)
    participation: float = 0.3
    clip: float = 1.0
    rounds: int = 400
    seed: int = 0

    @property
    def senders(self) -> float:
        """m, users of a round, on average."""
        return self.participation * self.setting.num_users


def run(config: Config) -> Outcome:
    runs = xr.concat([trained(config, access) for access in ACCESS], "access", combine_attrs="override")
    found = runs.assign_coords(access=list(ACCESS))
    return judge(config, found.assign(eps=(("access", "noise_variance"), leakage(config))))


def trained(config: Config, access: str) -> xr.Dataset:
    """Accuracy `[receiver_noise, noise_variance, seed, iteration]`; without receiver noise as a control."""
    setting = config.setting
    dataset, model = load(setting.task), model_of(setting.task)
    axes = {
        "receiver_noise": [training.RECEIVER_NOISE, 0.0], "noise_variance": config.noise_variances,
        "seed": range(setting.repeats),
    }  # fmt: skip
    whole = sweep(
        functools.partial(system, config, access), axes, jax.random.key(config.seed), model.init,
        data.federate(dataset, setting.num_users, seed=config.seed), rounds=config.rounds,
        every=max(1, config.rounds // setting.evaluations), keep=next_run(), progress=False,
        evaluate=metrics.accuracy(model, dataset.x_test, dataset.y_test),
    )  # fmt: skip
    sizes = {"num_params": training.num_params(setting.task)}
    return (
        whole[["accuracy", "failed_rounds"]].rename(evaluation="iteration", failed_rounds="failed").assign_attrs(sizes)
    )


def system(config: Config, access: Any, *, receiver_noise: Any, noise_variance: Any) -> Algorithm:
    """One run, without power limits: these are relative to the receiver's noise, which the control does without."""
    setting = config.setting
    loss = losses.softmax_cross_entropy(model_of(setting.task))
    return wireless(
        local_sgd(loss, learning_rate=1.0, batch_size=setting.batch_size, num_steps=1), access=access,
        participation=config.participation, clip=config.clip, noise_variance=noise_variance,
        receiver_noise=receiver_noise, known_count=setting.known_count, server=optax.adam(setting.learning_rate),
    )  # fmt: skip


def leakage(config: Config) -> list[list[float]]:
    """Exact eps of a round, of replacement, by access and sigma^2; of the whole set on links, whose silence is seen."""
    rounds = [
        theory.Round(config.setting.num_users, config.participation, config.clip, variance, training.RECEIVER_NOISE)
        for variance in config.noise_variances
    ]
    superposed = [float(theory.rigorous_epsilon(each, DELTA_LOCAL)) for each in rounds]
    return [superposed, [float(theory.rigorous_sampled_orthogonal_epsilon(each, DELTA_LOCAL)) for each in rounds]]


def noise_ratio(config: Config, variance: float) -> float:
    """Noise on a parameter of the mean, of links over that of one channel."""
    n0 = training.RECEIVER_NOISE
    return (variance + n0) / (variance + n0 / config.senders)


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """Figure and claims, from the data of a run."""
    ratios = ", ".join(f"{noise_ratio(config, v):.3g} (sigma^2 = {v:g})" for v in config.noise_variances)
    eps = "; ".join(
        f"sigma^2 = {float(v):g}: {float(one):.3g} and {float(other):.3g}"
        for v, (one, other) in zip(result.noise_variance, result.eps.values.T, strict=True)
    )
    caveats = [
        f"{training.describe(config.setting)}; no power limit",
        f"uniform p = {config.participation:g}, L = {config.clip:g}, T = {config.rounds}; a link for each sender takes "
        f"{config.senders:g} times the channel uses, at the same energy of a sender",
        f"noise of the mean on links over that on one channel: {ratios}",
        f"exact eps of a round at delta = {DELTA_LOCAL:g}, one channel and links: {eps}",
        training.failures(result),
    ]
    return Outcome(figure(config, result), result, claims(config, result), caveats)


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    ends = ahead(result, training.RECEIVER_NOISE)
    return [
        _faster(config, result, "equal-rounds", "in as many rounds", ends),
        _faster(config, result, "equal-uses", "in as many channel uses", at_equal_uses(config, result)),
        _leaks(result),
    ]


def _faster(config: Config, result: xr.Dataset, name: str, when: str, found: Gap) -> Claim:
    """By how much one channel is ahead; without receiver noise both are the same estimate."""
    control = ahead(result, 0.0)
    claim = Claim(
        name, f"one channel trains faster than a link for each user, {when}", "faster",
        ", ".join(f"{found.sel(noise_variance=v).text()} (sigma^2 = {v:g})" for v in config.noise_variances),
        decided(found.above()), "its accuracy is above: the interval of the difference is above 0",
        "points of accuracy", why=Open.UNDECIDED, differs="the paper trains on one channel only",
        control="without receiver noise, in as many rounds: "
        + ", ".join(control.sel(noise_variance=v).text() for v in config.noise_variances),
    )  # fmt: skip
    worse = name == "equal-rounds" and bool(((control.low > 0) & (control.mean >= found.mean)).any())
    return (
        untestable(claim, "one channel is as far ahead without receiver noise: not what superposing saves")
        if worse
        else claim
    )


def ahead(result: xr.Dataset, receiver_noise: float) -> Gap:
    """Of the last accuracies."""
    ends = last(result.accuracy.sel(receiver_noise=receiver_noise, drop=True), "iteration")
    return gap(ends.sel(access="multiple"), ends.sel(access="orthogonal"))


def at_equal_uses(config: Config, result: xr.Dataset) -> Gap:
    """One channel in T rounds, links in T / m, or the first evaluation after that."""
    accuracy = result.accuracy.sel(receiver_noise=training.RECEIVER_NOISE, drop=True)
    early = accuracy.sel(iteration=config.rounds / config.senders, method="backfill", drop=True)
    return gap(last(accuracy, "iteration").sel(access="multiple"), early.sel(access="orthogonal"))


def _leaks(result: xr.Dataset) -> Claim:
    superposed, links = result.eps.sel(access="multiple"), result.eps.sel(access="orthogonal")
    return Claim(
        "leaks-less", "one channel leaks less of a round", "less",
        ", ".join(f"{float(b / a):.3g} times less (sigma^2 = {float(v):g})"
                  for v, a, b in zip(result.noise_variance, superposed, links, strict=True)),
        bool((superposed < links).all()), "exact eps of a round is below that of links", source=Source.OURS,
    )  # fmt: skip


def figure(config: Config, result: xr.Dataset) -> Figure:
    picture = Figure(figsize=(13, 4.4), layout="constrained")
    by_round, by_use = picture.subplots(1, 2)
    _draw(by_round, config, result, dict.fromkeys(ACCESS, 1.0), "rounds")
    _draw(by_use, config, result, {"multiple": 1.0, "orthogonal": config.senders}, "channel uses / d")
    by_use.set_xscale("log")
    return picture


def _draw(axes: Axes, config: Config, result: xr.Dataset, uses: dict[str, float], unit: str) -> None:
    colours = colours_of(config.noise_variances, shaded=False)
    for variance in config.noise_variances:
        for access, style in zip(ACCESS, ("-", "--"), strict=True):
            of = {"receiver_noise": training.RECEIVER_NOISE, "noise_variance": variance, "access": access}
            runs = result.accuracy.sel(of, drop=True).dropna("iteration", how="all")
            runs = runs.isel(iteration=slice(1, None))
            runs = runs.assign_coords(iteration=np.asarray(runs.iteration) * uses[access])
            band(axes, runs, "iteration", f"{access}, sigma^2 = {variance:g}", colours[variance], style)
    finish(axes, f"{config.setting.task.dataset}, by {unit}", legend={}, xlabel=unit, ylabel="test accuracy")

"""Settings, clients and runs of the FedREP paper's figures.

Runs of one method are one program: confounding, attack, momentum, rate and seed are traced numbers. Masks are elided:
the same aggregates bit for bit, and the same messages.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import xarray as xr

from experiments.fedrep import control
from experiments.fedrep.methods import ATTACKS, PAPERS, Method, system_of
from experiments.fedrep.tuning import tuned
from experiments.problem import Task, load, model_of, num_params
from experiments.resuming import next_run
from fedjax_priv import data, losses, metrics
from fedjax_priv.base import Algorithm, Local, View
from fedjax_priv.clients import local_sgd
from fedjax_priv.runs.sweep import sweep

ELIDED = "masks were elided in the runs of accuracy and bytes: the same aggregates and messages"


Observe = Callable[[View], dict[str, Any]]
"""What is measured of a round's view."""


class Setting(NamedTuple):
    """Data, model and how long clients train. The defaults are the paper's, but for repeats."""

    task: Task = Task("cifar10", "resnet20")
    num_clients: int = 32
    batch_size: int = 25
    epochs: int = 120
    evaluations: int = 60
    rates: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
    widenings: int = 4  # of the rates, at most
    repeats: int = 3
    at_once: int | None = None


class Config(NamedTuple):
    """A figure at one scale. Axes with a single value are not drawn."""

    setting: Setting
    methods: dict[str, Method]
    attacks: tuple[str, ...] = PAPERS
    alphas: tuple[float, ...] = (0.0,)
    momenta: tuple[float, ...] = (0.9,)
    seed: int = 0


def lengths(setting: Setting, method: Method, samples: int) -> tuple[int, int]:
    """Iterations in `setting.epochs` passes over the data, and iterations between two evaluations."""
    local_steps = setting.epochs * samples / (setting.num_clients * setting.batch_size)
    every = max(1, round(local_steps / method.local_steps / setting.evaluations))
    return every * setting.evaluations, every


def local_of(setting: Setting, method: Method, rounds: int, momentum: Any, rate: Any) -> Local:
    """Eq. 182: `m <- beta m + (1 - beta) grad`, with a rate that falls to a tenth after two thirds of the rounds."""
    drop = round(rounds * 80 / 120)
    return local_sgd(
        losses.softmax_cross_entropy(model_of(setting.task)),
        learning_rate=lambda done: rate * (1 - momentum) * jnp.where(done < drop, 1.0, 0.1),
        batch_size=setting.batch_size,
        num_steps=method.local_steps,
        momentum=momentum,
        carry_momentum=True,
    )


def algorithm(
    setting: Setting, method: Method, rounds: int, *, alpha: Any, attack: Any, momentum: Any, rate: Any, **how: Any
) -> Algorithm:
    """A method; `attack` is a place in `ATTACKS`, `how` is passed on to `system_of`."""
    local = local_of(setting, method, rounds, momentum, rate)
    return system_of(method, local, setting.num_clients, num_params(setting.task), alpha, attack, rate, **how)


def compare(config: Config, observe: Observe | None = None) -> xr.Dataset:
    """Run all methods, each at the rate that is best for it, and an undefended mean as a control of the attacks.

    Returns:
      `accuracy` `[curve, alpha, momentum, attack, seed, epoch]`; without `epoch` the means over rounds and clients of
      `gamma`, |I| / d, and of bytes of an iteration, `up` and `down`, as well as `failed` rounds and what `observe`
      gave; `rate` `[curve, alpha, momentum]`; `end` `[curve, alpha, momentum, tried]`, the last accuracy at each of
      the rates; and, if clients are Byzantine, `undefended` `[attacked, seed]`, the last accuracy of the control.
    """
    dataset = load(config.setting.task)
    parts = [_one(config, method, dataset, observe) for method in config.methods.values()]
    result = xr.concat(parts, xr.Variable("curve", list(config.methods)), join="outer")
    if (mean := control.undefended(config.methods)) is not None:
        result["undefended"] = undefended(config, mean, dataset)
    return result.assign_attrs(num_params=num_params(config.setting.task))


def undefended(config: Config, mean: Method, dataset: data.Dataset) -> xr.DataArray:
    """The last accuracies of the control `[attacked, seed]`, with no attack first."""
    attacks = (control.NONE, *(name for name in config.attacks if name != control.NONE))
    usual = 0.9 if 0.9 in config.momenta else config.momenta[0]
    plain = config._replace(attacks=attacks, alphas=(0.0,), momenta=(usual,))
    runs = _runs(plain, mean, dataset, None, mean.rates or config.setting.rates)
    return control.ends(runs.squeeze(("alpha", "momentum"), drop=True))


def _one(config: Config, method: Method, dataset: data.Dataset, observe: Observe | None) -> xr.Dataset:
    run = functools.partial(_runs, config, method, dataset, observe)
    return tuned(run, method.rates or config.setting.rates, config.setting.widenings)


def _runs(
    config: Config, method: Method, dataset: data.Dataset, observe: Observe | None, rates: Sequence[float]
) -> xr.Dataset:
    setting, samples = config.setting, len(dataset.x_train)
    rounds, every = lengths(setting, method, samples)
    numbers: Mapping[str, Sequence[float | int]] = {
        "alpha": config.alphas,
        "momentum": config.momenta,
        "attack": [float(list(ATTACKS).index(name)) for name in config.attacks],
        "rate": rates,
        "seed": range(setting.repeats),
    }
    whole = sweep(
        functools.partial(algorithm, setting, method, rounds, elide=True, observe=observe), numbers,
        jax.random.key(config.seed), model_of(setting.task).init,
        data.federate(dataset, setting.num_clients, seed=config.seed),
        rounds=rounds, every=every, at_once=setting.at_once, over="clients", keep=next_run(), progress=False,
        evaluate=metrics.accuracy(model_of(setting.task), dataset.x_test, dataset.y_test),
    )  # fmt: skip
    whole = whole.assign_coords(attack=list(config.attacks), evaluation=whole.evaluation * setting.epochs / rounds)
    return summary(whole.rename(evaluation="epoch"), method, num_params(setting.task))


def summary(runs: xr.Dataset, method: Method, d: int) -> xr.Dataset:
    """Accuracy, Gamma, bytes and failed rounds of runs."""
    mean = {way: runs[f"{way}_bytes"].sum("phase").mean(("round", "client")) for way in ("up", "down")}
    values = runs.up_bytes.sel(phase="upload").mean(("round", "client")) / 4 / d
    observed = {name: values.mean("round") for name, values in runs.data_vars.items() if name in OBSERVED}
    failed = (runs.status != 0).sum("round")
    gamma = values if method.sends_values_alone else xr.full_like(values, method.ratio)
    return xr.Dataset({"accuracy": runs.accuracy, "gamma": gamma, "failed": failed} | mean | observed).drop_vars(
        "phase"
    )


OBSERVED = ("dissimilarity", "length")
"""Names of what may be observed."""

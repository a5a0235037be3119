"""More participants: how accuracy grows with p, and whether leakage falls as 1 / sqrt(1 + kappa), as the paper says.

Kappa is the number of others that are sure to send, less a margin (Lemma 2); it grows with p and with the number K.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax.typing import ArrayLike

from experiments.harness import Outcome
from experiments.problem import load, model_of, num_params
from experiments.resuming import next_run
from experiments.wireless import participation_claims, training
from experiments.wireless.leakage import DELTA_LOCAL
from experiments.wireless.training import Setting
from fedjax_priv import data, losses, metrics
from fedjax_priv.base import Algorithm
from fedjax_priv.clients import local_sgd
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import wireless
from fedjax_priv.theory import wireless as theory

DELTA_PRIME = 1e-5


class Config(NamedTuple):
    """Uniform sampling, no power limit; leakage of a round is by p for K = 200, and by K for p = 0.3."""

    setting: Setting
    participation: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 1.0)
    noise_variances: tuple[float, ...] = (0.1, 0.8)
    clip: float = 1.0
    rounds: int = 100
    leaking: tuple[float, ...] = tuple(np.linspace(0.25, 1, 16).round(2).tolist())  # p
    sizes: tuple[int, ...] = (400, 800, 1600, 3200, 6400, 12_800)  # K
    seed: int = 0

    @property
    def cases(self) -> np.ndarray:
        """`[case, 2]`: sigma^2 and N0; the last one has no noise."""
        return np.array([*((v, training.RECEIVER_NOISE) for v in self.noise_variances), (0.0, 0.0)])


def case_names(config: Config) -> list[str]:
    return [*(f"sigma^2 = {v:g}" for v in config.noise_variances), participation_claims.NOISELESS]


def run(config: Config) -> Outcome:
    return judge(config, xr.merge([trained(config), leakages(config)]))


def algorithm(config: Config, *, participation: ArrayLike, case: ArrayLike) -> Algorithm:
    """One run; `case` is a row of `Config.cases`."""
    setting, row = config.setting, jnp.asarray(case, jnp.int32)
    variance, receiver = (jnp.asarray(column, jnp.float32)[row] for column in config.cases.T)
    loss = losses.softmax_cross_entropy(model_of(setting.task))
    return wireless(
        local_sgd(loss, learning_rate=1.0, batch_size=setting.batch_size, num_steps=1), participation=participation,
        clip=config.clip, noise_variance=variance, receiver_noise=receiver, known_count=setting.known_count,
        server=optax.adam(setting.learning_rate),
    )  # fmt: skip


def trained(config: Config) -> xr.Dataset:
    """Accuracy `[participation, case, seed, iteration]`."""
    setting = config.setting
    dataset, model = load(setting.task), model_of(setting.task)
    axes = {
        "participation": list(config.participation), "case": list(map(float, range(len(config.cases)))),
        "seed": range(setting.repeats),
    }  # fmt: skip
    whole = sweep(
        functools.partial(algorithm, config), axes, jax.random.key(config.seed), model.init,
        data.federate(dataset, setting.num_users, seed=config.seed), rounds=config.rounds,
        every=max(1, config.rounds // setting.evaluations), keep=next_run(), progress=False,
        evaluate=metrics.accuracy(model, dataset.x_test, dataset.y_test),
    )  # fmt: skip
    found = whole[["accuracy", "failed_rounds"]].rename(evaluation="iteration", failed_rounds="failed")
    return found.assign_coords(case=case_names(config)).assign_attrs(num_params=num_params(setting.task))


def leakages(config: Config) -> xr.Dataset:
    """`leakage` of 200 users by p, and at p = 0.3 by K."""
    points = {"p": [(200, p) for p in config.leaking], "K": [(k, 0.3) for k in config.sizes]}
    named = [
        leakage(config, of).rename(point=by, eps=f"eps_by_{by}", shown=f"shown_by_{by}") for by, of in points.items()
    ]
    return xr.merge(named).assign_coords(p=list(config.leaking), K=list(config.sizes))


def leakage(config: Config, points: list[tuple[int, float]]) -> xr.Dataset:
    """`eps` `[case, figure, point]` of a round of K users at p, at the delta of Lemma 2; `shown` is 1 + kappa."""
    shown = [1 + (k - 1) * p - np.sqrt(k * np.log(2 / DELTA_PRIME) / 2) for k, p in points]
    rows = [[_figures(theory.Round(k, p, config.clip, v)) for k, p in points] for v in config.noise_variances]
    cases = case_names(config)[:-1]
    eps = ("noisy", "figure", "point"), np.moveaxis(np.array(rows), 2, 1)
    return xr.Dataset(
        {"eps": eps, "shown": ("point", shown)}, {"noisy": cases, "figure": list(participation_claims.FIGURES)}
    )


def _figures(silent: theory.Round) -> list[float]:
    """In the order of `FIGURES`; the exact one is of replacement."""
    heard = silent._replace(receiver_noise=training.RECEIVER_NOISE)
    at = DELTA_LOCAL, DELTA_PRIME
    forms = theory.local_epsilon, theory.local_epsilon_analytic
    found = [form(one, *at) for form in forms for one in (silent, heard)]
    return [*map(float, found), float(theory.rigorous_epsilon(heard, theory.local_delta(silent, *at)))]


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """Figure and claims, from the data of a run."""
    caveats = [
        f"{training.describe(config.setting)}; no power limit",
        f"L = {config.clip:g}, T = {config.rounds:,}; leakage is of a round, K = 200 by p, p = 0.3 by K, delta_l = "
        f"{DELTA_LOCAL:g}, delta' = {DELTA_PRIME:g}, exact figures (replacement, R revealed) at the delta of Lemma 2",
        training.failures(result),
    ]
    return Outcome(
        participation_claims.figure(config, result), result, participation_claims.claims(config, result), caveats
    )

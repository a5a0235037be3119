"""What the channel leaks, measured: it is simulated for two adjacent inputs, and a test tells them apart.

For an event A that the server can observe, P[A] - e^eps P'[A] is at most delta(eps). Clopper-Pearson intervals of both
probabilities make it a lower bound on delta; a valid accountant is never below it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from experiments.resuming import next_run
from fedjax_priv.audit import sending
from fedjax_priv.base import Algorithm, ClientData, Local, View
from fedjax_priv.channels import constant
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import wireless
from fedjax_priv.theory import wireless as theory

CONFIDENCE = 0.95
"""Of all intervals of an audit together."""


class Trials(NamedTuple):
    """A round in which all users are aligned, and how often it is simulated."""

    setting: theory.Round
    num_params: int
    rounds: int  # for each seed
    seeds: int


class Measured(NamedTuple):
    """Delta at each eps, `[eps]`: what a test found, and the ends of its interval."""

    found: np.ndarray
    low: np.ndarray
    high: np.ndarray


def replacement(spec: Trials, epsilons: np.ndarray, seed: int) -> Measured:
    """The worst pair: user 0 sends L u or -L u, all others -L u, and R is revealed; the likelihood ratio decides."""
    users = int(spec.setting.num_users)

    def system(side: Any) -> Algorithm:
        signs = jnp.full(users, -1.0).at[0].set(side)
        vectors = jnp.zeros((users, spec.num_params)).at[:, 0].set(signs * spec.setting.clip)
        return _system(spec, sending(vectors), spec.setting.participation, _signal, known_count=True)

    runs = _simulate(spec, system, "side", [1.0, -1.0], seed)
    losses = replacement_loss(spec.setting, runs.number.values, runs.signal.values)
    with_user, without = losses.reshape(2, -1)
    decide = lambda eps: ((with_user > eps).sum(), (without > eps).sum())
    return _measured(decide, epsilons, with_user.size)


def replacement_loss(setting: theory.Round, number: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """log of the ratio of the two laws of y u, given R: a mixture of two normal ones over one of them."""
    deviation = np.sqrt(number * setting.noise_variance + setting.receiver_noise)
    shift, z = 2 * setting.clip / deviation, (signal + number * setting.clip) / deviation
    part = number / setting.num_users
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-part), np.log(part) + shift * z - shift**2 / 2)


def removal(spec: Trials, epsilons: np.ndarray, seed: int) -> Measured:
    """The counterexample: all gradients are 0, user 0 is present or not, R is not revealed; the power decides.

    A fifth of the rounds choose the threshold, the rest are counted.
    """
    users = int(spec.setting.num_users)

    def system(present: Any) -> Algorithm:
        p = jnp.full(users, spec.setting.participation).at[0].mul(present)
        return _system(spec, sending(jnp.zeros((users, spec.num_params))), p, _power, known_count=False)

    power = _simulate(spec, system, "present", [1.0, 0.0], seed).power.values.reshape(2, -1)
    chosen, counted = np.split(power, [power.shape[1] // 5], axis=1)

    def decide(eps: float) -> tuple[int, int]:
        threshold = _best(chosen[0], chosen[1], eps)
        return (counted[0] > threshold).sum(), (counted[1] > threshold).sum()

    return _measured(decide, epsilons, counted.shape[1])


def _signal(view: View) -> dict[str, Array]:
    return {"signal": view.received.value[0, 0], "number": view.received.count[0]}


def _power(view: View) -> dict[str, Array]:
    return {"power": jnp.square(view.received.value[0]).mean()}


def _system(spec: Trials, local: Local, participation: Any, observe: Callable, *, known_count: bool) -> Algorithm:
    clip, noise, receiver_noise = map(float, spec.setting[2:])
    return wireless(
        local, clip=clip, noise_variance=noise, receiver_noise=receiver_noise, participation=participation,
        fading=constant(), known_count=known_count, observe=observe,
    )  # fmt: skip


def _simulate(spec: Trials, system: Callable[..., Algorithm], name: str, values: list[float], seed: int) -> xr.Dataset:
    """What was observed, `[input, seed, round]`."""
    users = int(spec.setting.num_users)
    nothing = ClientData((np.zeros((users, 1), np.float32),), jnp.ones(users, jnp.int32))
    return sweep(
        system, {name: values, "seed": range(spec.seeds)}, jax.random.key(seed), jnp.zeros(spec.num_params), nothing,
        rounds=spec.rounds, every=spec.rounds, keep=next_run(), progress=False,
    )  # fmt: skip


def _best(first: np.ndarray, second: np.ndarray, eps: float) -> float:
    """The threshold above which the first is more often than e^eps times the second, by most."""
    places = np.sort(first)
    above = 1 - np.arange(1, places.size + 1) / places.size
    other = 1 - np.searchsorted(np.sort(second), places, side="right") / second.size
    return places[np.argmax(above - np.exp(eps) * other)]


def _measured(decide: Callable[[float], tuple[int, int]], epsilons: np.ndarray, size: int) -> Measured:
    from scipy.stats import binomtest  # slow to import

    level = 1 - (1 - CONFIDENCE) / (2 * epsilons.size)
    rows = []
    for eps in epsilons:
        hits = decide(eps)
        (low, high), (other_low, other_high) = (
            binomtest(int(hit), size).proportion_ci(level, method="exact") for hit in hits
        )
        scale = np.exp(eps)
        rows.append(((hits[0] - scale * hits[1]) / size, low - scale * other_high, high - scale * other_low))
    return Measured(*np.array(rows).T)

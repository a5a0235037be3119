"""What the channel leaks, measured: it is simulated for two neighbouring inputs, and a test tells them apart.

For an event A the server can decide on, P[A] - e^eps P'[A] is at most delta(eps), so with Clopper-Pearson intervals of
both probabilities it is a lower bound on delta that no valid accountant may be below.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from scipy import stats

from fedjax_priv.audit import sending
from fedjax_priv.base import Algorithm, ClientData, Local, View
from fedjax_priv.channels import constant
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import wireless

CONFIDENCE = 0.95
"""Of all intervals of an audit together."""


class Round(NamedTuple):
    """A round in which all users are aligned, and how often it is simulated."""

    num_users: int
    participation: float
    clip: float
    noise_variance: float
    receiver_noise: float
    num_params: int
    rounds: int  # of a seed
    seeds: int


class Measured(NamedTuple):
    """Delta at each eps, `[eps]`: what a test found, and the ends of its interval."""

    found: np.ndarray
    low: np.ndarray
    high: np.ndarray


def replacement(spec: Round, epsilons: np.ndarray, seed: int) -> Measured:
    """The worst pair: user 0 sends L u or -L u, all others -L u, and R is revealed; the likelihood ratio decides."""

    def system(side: Any) -> Algorithm:
        signs = jnp.full(spec.num_users, -1.0).at[0].set(side)
        vectors = jnp.zeros((spec.num_users, spec.num_params)).at[:, 0].set(signs * spec.clip)
        return _system(spec, sending(vectors), spec.participation, _signal, known_count=True)

    runs = _simulate(spec, system, "side", [1.0, -1.0], seed)
    losses = replacement_loss(spec, runs.number.values, runs.signal.values)
    with_user, without = losses.reshape(2, -1)
    decide = lambda eps: ((with_user > eps).sum(), (without > eps).sum())
    return _measured(decide, epsilons, with_user.size)


def replacement_loss(spec: Round, number: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """log of the ratio of the two laws of y u, given R: a mixture of two normal ones over one of them."""
    deviation = np.sqrt(number * spec.noise_variance + spec.receiver_noise)
    shift, z = 2 * spec.clip / deviation, (signal + number * spec.clip) / deviation
    share = number / spec.num_users
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-share), np.log(share) + shift * z - shift**2 / 2)


def removal(spec: Round, epsilons: np.ndarray, seed: int) -> Measured:
    """The counterexample: all gradients are 0, user 0 is there or not, and R is not revealed; the power decides.

    A fifth of the rounds choose the threshold, the others are counted.
    """

    def system(present: Any) -> Algorithm:
        p = jnp.full(spec.num_users, spec.participation).at[0].mul(present)
        return _system(spec, sending(jnp.zeros((spec.num_users, spec.num_params))), p, _power, known_count=False)

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


def _system(spec: Round, local: Local, participation: Any, observe: Callable, *, known_count: bool) -> Algorithm:
    return wireless(
        local, clip=spec.clip, noise_variance=spec.noise_variance, receiver_noise=spec.receiver_noise,
        participation=participation, fading=constant(), known_count=known_count, observe=observe,
    )  # fmt: skip


def _simulate(spec: Round, system: Callable[..., Algorithm], name: str, values: list[float], seed: int) -> xr.Dataset:
    """What was observed, `[input, seed, round]`."""
    nothing = ClientData((np.zeros((spec.num_users, 1), np.float32),), jnp.ones(spec.num_users, jnp.int32))
    return sweep(
        system, {name: values, "seed": range(spec.seeds)}, jax.random.key(seed), jnp.zeros(spec.num_params), nothing,
        rounds=spec.rounds, every=spec.rounds, progress=False,
    )  # fmt: skip


def _best(first: np.ndarray, second: np.ndarray, eps: float) -> float:
    """The threshold above which the first is more often than e^eps times the second, by most."""
    places = np.sort(first)
    above = 1 - np.arange(1, places.size + 1) / places.size
    other = 1 - np.searchsorted(np.sort(second), places, side="right") / second.size
    return places[np.argmax(above - np.exp(eps) * other)]


def _measured(decide: Callable[[float], tuple[int, int]], epsilons: np.ndarray, size: int) -> Measured:
    level = 1 - (1 - CONFIDENCE) / (2 * epsilons.size)
    rows = []
    for eps in epsilons:
        hits = decide(eps)
        (low, high), (other_low, other_high) = (
            stats.binomtest(int(hit), size).proportion_ci(level, method="exact") for hit in hits
        )
        scale = np.exp(eps)
        rows.append(((hits[0] - scale * hits[1]) / size, low - scale * other_high, high - scale * other_low))
    return Measured(*np.array(rows).T)

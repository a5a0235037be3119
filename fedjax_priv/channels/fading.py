"""Fading: the gains of the clients' links in each round. Their state is part of a draw's state."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Key
from fedjax_priv.keys import named, per_client


class Fading(NamedTuple):
    """Block flat fading: one amplitude per client and round."""

    init: Callable[..., PyTree]  # (key, n) -> state [n, ...]
    apply: Callable[..., tuple]  # (key, state, round, n) -> (gain [n], state)
    knowledge: Any = None  # what clients know of these gains, see `knowledge.estimated`; None: all
    rayleigh: bool = False  # each gain is the amplitude of a CN(0, 1) variable
    anew: bool = False  # gains are independent from round to round


def constant(gain: ArrayLike = 1.0) -> Fading:
    """The same gains in every round.

    Args:
      gain: > 0, one for all clients or `[n]`; may be traced.

    Raises:
      ValueError: a gain is not > 0, or (by `init`) the number of gains is neither 1 nor n.

    Examples:
      >>> gains, state = jax.jit(constant(np.array([0.5, 2.0])).apply, static_argnums=3)(jax.random.key(0), (), 0, 2)
      >>> print(gains)
      [0.5 2. ]
    """
    amplitude = _validate.array(_validate.positive, gain=gain)

    def init(key: Key, n: int) -> tuple:
        del key
        _validate.per_client(n, gain=gain)
        return ()

    def apply(key: Key, state: tuple, round: Int[Array, ""], n: int) -> tuple[Array, tuple]:
        return jnp.broadcast_to(amplitude, (n,)), state

    return Fading(init, apply)


def rician(factor: float | Array = 5.0, *, correlation: float | Array = 0.1) -> Fading:
    """Autoregressive Rician fading: the sum of a fixed path and a scattered path that changes from round to round.

    `h_t = |sqrt(G / (G + 1)) + sqrt(1 / (G + 1)) v_t|`, `v_t = rho v_{t-1} + sqrt(1 - rho^2) CN(0, 1)`,
    `v_1 ~ CN(0, 1)`; the mean of `h_t^2` is 1. Each client draws independently.

    Args:
      factor: G >= 0, the power of the fixed path divided by the power of the scattered path; 0 is Rayleigh fading.
      correlation: rho, in [0, 1]; 1 freezes the channel for the run.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> fading = rician(factor=5.0)
      >>> state = fading.init(jax.random.key(0), 10_000)
      >>> gains, state = jax.jit(fading.apply, static_argnums=3)(jax.random.key(1), state, 0, 10_000)
      >>> print(round(float((gains**2).mean()), 1), gains.min() > 0)
      1.0 True
    """
    factor = _validate.non_negative(factor=factor)
    rho = jnp.asarray(_validate.fraction(correlation=correlation), jnp.float32)

    def scattered(key: Key, n: int) -> Float[Array, "n 2"]:
        """CN(0, 1), real and imaginary part."""
        return per_client(lambda key: jax.random.normal(key, (2,)), key, jnp.arange(n)) / jnp.sqrt(2.0)

    def apply(key: Key, v: Float[Array, "n 2"], round: Int[Array, ""], n: int) -> tuple[Array, Array]:
        real, imaginary = v.T / jnp.sqrt(factor + 1)
        gain = jnp.hypot(real + jnp.sqrt(factor / (factor + 1)), imaginary)
        return gain, rho * v + jnp.sqrt(1 - jnp.square(rho)) * scattered(named(key, "scattered"), n)

    return Fading(lambda key, n: scattered(named(key, "scattered"), n), apply)


def rayleigh(*, correlation: float | Array = 0.0) -> Fading:
    """Autoregressive Rayleigh fading, without a fixed path: `rician` with G = 0.

    Args:
      correlation: as in `rician`.

    Raises:
      ValueError: `correlation` is outside [0, 1].

    Examples:
      >>> fading = rayleigh()
      >>> state = fading.init(jax.random.key(0), 10_000)
      >>> gains, state = jax.jit(fading.apply, static_argnums=3)(jax.random.key(1), state, 0, 10_000)
      >>> print(round(float((gains**2).mean()), 1))
      1.0
    """
    anew = _validate.is_known_as(0, correlation)
    return rician(0.0, correlation=correlation)._replace(rayleigh=True, anew=anew)


def recorded(gains: ArrayLike) -> Fading:
    """Gains that were measured, or computed by another program.

    Args:
      gains: `[rounds, clients]`, > 0; a round beyond the last fails.

    Raises:
      ValueError: a gain is not > 0, `gains` has another shape, or (when a round is traced) it has not n columns.

    Examples:
      >>> fading = recorded(np.array([[0.5, 2.0], [0.7, 1.0]]))
      >>> gains, state = jax.jit(fading.apply, static_argnums=3)(jax.random.key(0), (), 1, 2)  # of the second round
      >>> print(gains)
      [0.7 1. ]
    """
    if jnp.ndim(gains) != 2 or jnp.size(gains) == 0:
        raise ValueError(f"gains must have shape [rounds, clients] and not be empty, got {jnp.shape(gains)}")
    table = _validate.array(_validate.positive, gains=gains)

    def apply(key: Key, state: tuple, round: Int[Array, ""], n: int) -> tuple[Array, tuple]:
        if table.shape[1] != n:
            raise ValueError(f"gains must have a column for each of {n} clients, got {table.shape[1]}")
        return jnp.take(table, round, axis=0, mode="fill", fill_value=jnp.nan), state

    return Fading(lambda key, n: (), apply)

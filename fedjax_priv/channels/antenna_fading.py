"""Fading of links to a server with several antennas: complex gains from round to round.

Clients know nothing of these gains, so phases matter.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Key
from fedjax_priv.keys import per_client


class AntennaFading(NamedTuple):
    """Block flat fading: one complex gain per client, antenna and round, real and imaginary part."""

    init: Callable[..., PyTree]  # (key, n, antennas) -> state [n, ...]
    apply: Callable[..., tuple]  # (key, state, round, n, antennas) -> (gain [n, M, 2], state)
    power: ArrayLike = 1.0  # mean of |h|^2 at an antenna: one for all clients, or [n]
    anew: bool = False  # gains are Rayleigh and independent from round to round


def rayleigh_antennas(*, power: ArrayLike = 1.0, correlation: float | Array = 0.0) -> AntennaFading:
    """Autoregressive Rayleigh fading, independent over clients and antennas.

    `h_1 ~ CN(0, power_k)`, `h_t = rho h_{t-1} + sqrt(1 - rho^2) CN(0, power_k)`.

    Args:
      power: mean of |h|^2, path loss included, > 0, one for all clients or `[n]`; may be traced.
      correlation: rho, in [0, 1]; 1 freezes the channel for the run.

    Raises:
      ValueError: an argument is out of range, or (by `init`) the number of powers is neither 1 nor n.

    Examples:
      >>> fading = rayleigh_antennas()
      >>> state = fading.init(jax.random.key(0), 1000, 8)
      >>> gains, state = jax.jit(fading.apply, static_argnums=(3, 4))(jax.random.key(1), state, 0, 1000, 8)
      >>> print(gains.shape, round(float((gains**2).sum(2).mean()), 1))
      (1000, 8, 2) 1.0
    """
    anew = _validate.is_known_as(0, correlation)
    rho = jnp.asarray(_validate.fraction(correlation=correlation), jnp.float32)
    deviation = jnp.sqrt(_validate.array(_validate.positive, power=power) / 2)

    def scattered(key: Key, n: int, antennas: int) -> Float[Array, "n M 2"]:
        unit = per_client(lambda key: jax.random.normal(key, (antennas, 2)), key, jnp.arange(n))
        return jnp.broadcast_to(deviation, (n,))[:, None, None] * unit

    def init(key: Key, n: int, antennas: int) -> Array:
        _validate.per_client(n, power=power)
        return scattered(key, n, antennas)

    def apply(key: Key, h: Float[Array, "n M 2"], round: Int[Array, ""], n: int, antennas: int) -> tuple[Array, Array]:
        return h, rho * h + jnp.sqrt(1 - jnp.square(rho)) * scattered(key, n, antennas)

    return AntennaFading(init, apply, power, anew)


def recorded_antennas(gains: ArrayLike) -> AntennaFading:
    """Complex gains that were measured, or computed by another program such as a ray tracer.

    Args:
      gains: `[rounds, clients, antennas]`; a round beyond the last fails. `power` of a client is the mean of |h|^2 over
        its rounds and antennas.

    Raises:
      ValueError: `gains` has another shape or is not finite, or (when a round is traced) it has another number of
        clients or antennas.

    Examples:
      >>> fading = recorded_antennas(np.array([[[1.0, 1j], [2.0, 0.0]]]))
      >>> gains, state = jax.jit(fading.apply, static_argnums=(3, 4))(jax.random.key(0), (), 0, 2, 2)
      >>> print(gains[0], fading.power)
      [[1. 0.]
       [0. 1.]] [1. 2.]
    """
    table = np.asarray(gains)
    if table.ndim != 3 or not table.size or not np.isfinite(table).all():
        raise ValueError(f"gains must be finite numbers [rounds, clients, antennas], got {table.dtype} {table.shape}")
    parts = jnp.asarray(np.stack([np.real(table), np.imag(table)], axis=3), jnp.float32)

    def apply(key: Key, state: tuple, round: Int[Array, ""], n: int, antennas: int) -> tuple[Array, tuple]:
        if table.shape[1:] != (n, antennas):
            raise ValueError(f"gains must be of {n} clients and {antennas} antennas, got {table.shape[1:]}")
        return jnp.take(parts, round, axis=0, mode="fill", fill_value=jnp.nan), state

    return AntennaFading(lambda key, n, antennas: (), apply, np.square(abs(table)).mean((0, 2)))

"""Analog channels with fading and receiver noise: uploads add up on the air, or every client has a link."""

from collections.abc import Mapping

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.base import Channel, Cohort, Key, Received, absent
from fedjax_priv.crypto.normal_draws import normal
from fedjax_priv.crypto.prg import bits
from fedjax_priv.keys import per_client
from fedjax_priv.layers.channel_symbols import times
from fedjax_priv.layers.noise_as_one import NUMBERS, deviation_of_sum
from fedjax_priv.layers.noise_gaussian import plus_gaussian, standard_deviation


def multiple_access(
    receiver_noise: float | Array = 1.0, *, known_count: bool = True, noise_unit: ArrayLike | None = None
) -> Channel:
    """Gaussian multiple-access channel: `y = sum_{k in K_t} h_k x_k + N(0, N0 I_d)` (wireless FedSGD, eq. 1).

    A round takes d channel uses for any number of senders. The server gets only the sum.

    Args:
      receiver_noise: N0, >= 0; may be traced.
      known_count: whether the server knows how many clients sent. If not, each row counts as one upload.
      noise_unit: if given, the channel draws the sum of the clients' Gaussian noise in one draw. The last two numbers
        of an upload then describe the client's noise, in this unit of variance, see `layers.align`.

    Raises:
      ValueError: `receiver_noise` or `noise_unit` is negative, or `known_count` no truth value.

    Examples:
      >>> channel = multiple_access(receiver_noise=0.0, known_count=False)
      >>> received = fedjax_priv.base.Received(jnp.array([[6.0]]), count=jnp.array([3]))
      >>> print(jax.jit(channel.receive)(jax.random.key(0), received).value, channel.superposes)
      [[6.]] True
    """
    _validate.one_of((True, False), known_count=known_count)
    deviation = standard_deviation(_validate.non_negative(receiver_noise=receiver_noise))
    if noise_unit is not None:
        noise_unit = _validate.array(_validate.non_negative, noise_unit=noise_unit)

    def receive(key: Key, received: Received) -> Received:
        value, scale = received.value, deviation
        if noise_unit is not None:
            value, sums = received.value[:, :-NUMBERS], received.value[:, -NUMBERS:]
            scale = jnp.hypot(deviation, deviation_of_sum(sums, noise_unit, received.count))
        noise = scale * normal(key, value.shape)
        return Received(value + noise, received.count if known_count else jnp.ones_like(received.count))

    return Channel(_faded, receive, superposes=True, hides_count=not known_count)


def orthogonal(receiver_noise: float | Array = 1.0) -> Channel:
    """One link per client: `y_k = h_k x_k + N(0, N0 I_d)`. The server sees each `y_k`, and which links are silent.

    A round takes d channel uses per client that sends.

    Args:
      receiver_noise: as in `multiple_access`.

    Raises:
      ValueError: `receiver_noise` is negative.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> send = jax.jit(orthogonal(receiver_noise=1.0).transmit)
      >>> y, alive = send(jax.random.key(0), jnp.zeros((1000, 10)), cohort_of(1000))
      >>> print(round(float(y.std()), 1), y.shape)  # the server sees the upload of each client
      1.0 (1000, 10)
    """
    deviation = standard_deviation(_validate.non_negative(receiver_noise=receiver_noise))

    def transmit(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> tuple[Array, Array]:
        y, alive = _faded(key, x, cohort)
        return plus_gaussian(key, y, cohort, jnp.broadcast_to(deviation, alive.shape)), alive

    return Channel(transmit, lambda key, received: received)


def unknown_phases(receiver_noise: float | Array = 1.0) -> Channel:
    """Signals that add on the air with phases that nobody knows: `y = sum_k h_k e^(j theta_k) x_k + CN(0, 2 N0)`.

    A row of `x` is complex: first all real parts, then all imaginary parts. Phases are uniform, and independent for
    every client and number. If gains are Rayleigh, `h_k e^(j theta)` is CN(0, 1). The server gets the sum, and does not
    learn how many clients sent.

    Args:
      receiver_noise: N0, >= 0, of each real part; may be traced.

    Raises:
      ValueError: `receiver_noise` is negative.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> y, alive = jax.jit(unknown_phases().transmit)(jax.random.key(0), jnp.array([[3.0, 4.0]]), cohort_of(1))
      >>> print(round(float(jnp.hypot(*y[0])), 4))  # 3 + 4j, turned
      5.0
    """

    def transmit(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> tuple[Array, Array]:
        real, _ = jnp.split(x, 2, axis=1)
        words = per_client(lambda key: bits(key, "phases", real.shape[1:]), key, cohort.client)
        turn = words.astype(jnp.float32) * (2 * jnp.pi * 2.0**-32)
        return _faded(key, times(x, jnp.cos(turn), jnp.sin(turn)), cohort)

    return multiple_access(receiver_noise, known_count=False)._replace(transmit=transmit)


def true_gains(receiver_noise: float | Array = 1.0, *, known_count: bool = True) -> Channel:
    """Signals that add on the air, `y = sum_k h_k x_k + CN(0, 2 N0)`, where clients do not know their gains.

    A row of `x` is complex, as in `layers.complex_symbols`: first all real parts, then all imaginary parts. The true
    gain is `h_k = gain_k u_k`: client k knows `gain_k`, and `Cohort.coefficient` has the complex number u_k. Measured
    for senders: `received_amplitude`, the real part of the amplitude with which the client's signal arrives.

    Args:
      receiver_noise: N0, >= 0, of each real part; may be traced.
      known_count: as in `multiple_access`.

    Raises:
      ValueError: `receiver_noise` is negative, or `known_count` no truth value.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> cohort = cohort_of(1)._replace(coefficient=jnp.array([[0.5, 0.75]]))
      >>> y, alive = jax.jit(true_gains().transmit)(jax.random.key(0), jnp.array([[3.0, 0.0]]), cohort)
      >>> print(y)
      [[1.5  2.25]]
    """

    def transmit(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> tuple[Array, Array]:
        if absent(cohort.coefficient):
            return _faded(key, x, cohort)
        return _faded(key, times(x, *cohort.coefficient.T[:, :, None]), cohort)

    def measure(x: Float[Array, "b d"], y: Float[Array, "b d"], cohort: Cohort, measured: Mapping[str, Array]) -> dict:
        meant = cohort.gain[:, None] * x
        power = jnp.square(meant).sum(1)
        arrives = jnp.where(power > 0, (meant * y).sum(1) / jnp.where(power > 0, power, 1), 0)
        return {"received_amplitude": measured["amplitude"] * arrives}

    return multiple_access(receiver_noise, known_count=known_count)._replace(
        transmit=transmit, turns=True, measure=measure
    )


def _faded(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> tuple[Array, Array]:
    del key
    return cohort.gain[:, None] * x, cohort.selected

"""Uploads that add up on the air and are received by several antennas."""

from collections.abc import Mapping

import jax.numpy as jnp
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.base import Channel, Cohort, Key
from fedjax_priv.channels.analog_channels import multiple_access
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.layers.blind_combining import combined, links_of, strength, taken_of
from fedjax_priv.layers.channel_symbols import PerUse, times


def antenna_array(
    receiver_noise: float | Array = 1.0, *, every_antenna: bool = False, coordinates_per_use: PerUse = 1
) -> Channel:
    """Antenna m receives `y_m = sum_k h_km x_k + CN(0, 2 N0)`; the server combines the signals of its M antennas.

    x_k is real. The server computes `z = (1/M) sum_m conj(S_m) y_m`, with its estimate of `S_m = sum_k h_km`, and takes
    `Re z`: a sum of x_k with random coefficients `Re B_k`, and noise. The channel returns `Re z M / s`, with
    `s^2 = sum_m |S_m|^2`, in which the noise has variance N0: it multiplies uploads by `Re B_k M / s`. With two
    coordinates per use, x_k and B_k are complex, the channel returns `z M / s`, and a row has first all real parts,
    then all imaginary parts. Use it below `layers.blind_mean`, with gains of `clients.heard_by_antennas`.

    Measured for each client: `received_amplitude`, the real part of its amplitude after combining, divided by the
    cohort's `mean_power`. Its mean is `E|h_k|^2` divided by the cohort's mean: 1 if all are equal, else the client's
    weight.

    Args:
      receiver_noise: N0, >= 0, of each real dimension of each antenna; may be traced.
      every_antenna: return the signals of all antennas, as a real server has them: `[M, 2, d]` in a row of `2 M d`
        numbers. The estimate has the same law.
      coordinates_per_use: 1 or 2 coordinates of an update per complex use; with 2, `[M, 2, d]` becomes `[M, 2, d / 2]`.

    Raises:
      ValueError: `receiver_noise` is negative, `every_antenna` no truth value, `coordinates_per_use` neither 1 nor 2;
        or, when a round is traced, there are no antennas.

    Examples:
      >>> channel = antenna_array(receiver_noise=0.1)
      >>> print(channel.superposes, channel.antennas)
      True combined
    """
    _validate.one_of((True, False), every_antenna=every_antenna)
    given, pairs = taken_of(every_antenna, coordinates_per_use), coordinates_per_use == 2

    def transmit(key: Key, x: Float[Array, "b n"], cohort: Cohort) -> tuple[Array, Array]:
        del key
        links = links_of(cohort)
        if every_antenna:
            gain = links.gain[..., None]
            heard = x.reshape(*gain.shape[:2], *(() if pairs else (2,)), -1)
            heard = times(heard, gain[:, :, 0], gain[:, :, 1]) if pairs else gain * heard
            return heard.reshape(x.shape), cohort.selected
        real, imaginary = links.coefficient.T[:, :, None]
        return times(x, real, imaginary) if pairs else real * x, cohort.selected

    def measure(x: Float[Array, "b n"], y: Float[Array, "b n"], cohort: Cohort, measured: Mapping[str, Array]) -> dict:
        links = links_of(cohort)
        m = links.gain.shape[1]
        if every_antenna:
            x = x[:, : coordinates_per_use * x.shape[1] // (2 * m)]
            heard = combined(y.reshape(len(y), m, 2, -1), links.total, coordinates_per_use)
        else:
            heard = y * strength(links.total)[:, None] / m
        power = jnp.square(x).sum(1)
        arrives = jnp.where(power > 0, (x * heard).sum(1) / jnp.where(power > 0, power, 1), 0)
        heard_as = measured["amplitude"] * arrives / measured["mean_power"]
        return {"received_amplitude": rows_where(cohort.selected, heard_as, jnp.float32(0))}

    return multiple_access(receiver_noise)._replace(transmit=transmit, antennas=given, measure=measure)

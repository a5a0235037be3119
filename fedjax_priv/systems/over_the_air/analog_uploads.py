"""What systems over the air share: power control, the waveform, the channel, and what is released."""

import functools
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Channel, Cohort, Draw, Key, Layer
from fedjax_priv.channels import multiple_access, orthogonal, true_gains
from fedjax_priv.clients import at_levels, only_if
from fedjax_priv.layers import align, complex_symbols, over_the_air_mean, waveform
from fedjax_priv.layers import clip as clip_to
from fedjax_priv.layers.analog_alignment import PowerControl, power_left
from fedjax_priv.layers.channel_symbols import PerUse
from fedjax_priv.layers.noise_gaussian import one_for_each
from fedjax_priv.layers.receive_level import Level, Levels, is_one, level_of_cohort
from fedjax_priv.systems._arguments import only_default
from fedjax_priv.systems.over_the_air.truncated_draw import truncated
from fedjax_priv.systems.releases import OverTheAir

NoiseDrawn = Literal["by client", "as one"]
"""Whether each client draws its noise, or the channel one noise of that law for all."""


class AnalogUploads(NamedTuple):
    """Parts of a round whose uploads are analog signals."""

    draw: Draw
    layers: dict[str, Layer]
    channel: Channel
    release: OverTheAir


def analog_uploads(
    draw: Draw,
    *,
    clip: float | Array,
    noise_variance: ArrayLike,
    access: Literal["multiple", "orthogonal"],
    receiver_noise: float | Array = 1.0,
    snr_db: ArrayLike | None = None,
    power_control: PowerControl = "gradient",
    known_count: bool = True,
    level: Level = 1.0,
    truncation: ArrayLike | None = None,
    expected_count: float | Array | None = None,
    noise_drawn: NoiseDrawn = "by client",
    coordinates_per_use: PerUse = 1,
) -> AnalogUploads:
    """Clipped updates and their noise, aligned and sent as a waveform.

    Args:
      draw: who takes part, and the gains of their links; under "signal", clients whose noise takes all their power
        are left out.
      clip: largest Euclidean norm of what a client sends, before noise (L).
      noise_variance: variance of the privacy noise at each coordinate (sigma_k^2), of every client or `[n]`.
      access: "multiple": one channel on which uploads add up; "orthogonal": a separate link for each client.
      receiver_noise: over the air, variance of the receiver's noise (N0).
      snr_db: over the air, power limit as transmit SNR P_k / (d N0) in dB; no limit if not given. It makes nobody
        louder: where it leaves power to spare, `receiver_noise` alone decides how well uploads are received.
      power_control: over the air, how a client stays within `snr_db`, see `layers.align`.
      known_count: over the air, whether the server knows how many clients sent.
      level: over the air, the amplitude c_t at which clients are received, see `layers.align`.
      truncation: over the air, the least squared gain with which a client sends, of every client or `[n]`; all send if
        not given.
      expected_count: over the air, what the server divides by where it does not use how many clients sent.
      noise_drawn: "by client", or "as one" over the air: what the server receives has the same law.
      coordinates_per_use: of an update in a complex use of the channel, 1 or 2, where clients do not know their gains.

    Raises:
      ValueError: an argument outside its range.
    """
    _validate.one_of(("multiple", "orthogonal"), access=access)
    _validate.one_of(get_args(PowerControl), power_control=power_control)
    if snr_db is None:
        only_default(analog_uploads, "snr_db", power_control=power_control)
    _validate.one_of((True, False), known_count=known_count)
    _validate.positive(clip=clip)
    _validate.each(_validate.non_negative, noise_variance=noise_variance)
    power = None if snr_db is None else power_of_use(snr_db, receiver_noise)
    if isinstance(level, Levels):
        draw = at_levels(draw, level)
    if power is not None and power_control == "signal":
        variance = jnp.asarray(noise_variance, jnp.float32)
        draw = only_if(draw, lambda who: power_left(power / _squared(level, who), variance, who))
    if truncation is not None:
        draw = _truncated(draw, truncation)
    if draw.knowledge is not None and access != "multiple":
        raise ValueError(f"access must be 'multiple' where clients do not know their gains, got {access!r}")
    _validate.one_of((1, 2), coordinates_per_use=coordinates_per_use)
    if draw.knowledge is None and coordinates_per_use != 1:
        raise ValueError(
            f"coordinates_per_use must be 1 where gains are known, a real use each, got {coordinates_per_use}"
        )
    noise_unit = _noise_unit(noise_drawn, noise_variance, draw, access)
    several = true_gains if draw.knowledge is not None else functools.partial(multiple_access, noise_unit=noise_unit)
    channel = orthogonal(receiver_noise) if access == "orthogonal" else several(receiver_noise, known_count=known_count)
    aligned = align(
        noise_variance, max_norm=clip, power=power, control=power_control, level=level, noise_unit=noise_unit
    )
    layers = {
        "clip": clip_to(clip),
        "align": aligned._replace(init=one_for_each_client(noise_variance, snr_db)),
        "mean": over_the_air_mean(known_count=known_count, level=level, expected_count=expected_count),
        **({} if draw.knowledge is None else {"symbols": complex_symbols(draw.knowledge, coordinates_per_use)}),
        "send": waveform(),
    }
    release = OverTheAir(
        clip=clip, noise_variance=noise_variance, receiver_noise=receiver_noise, access=access, power=power,
        control=power_control, known_count=known_count, level=level, knowledge=draw.knowledge, truncation=truncation,
        coordinates_per_use=coordinates_per_use,
    )  # fmt: skip
    return AnalogUploads(draw, layers, channel, release)


def _noise_unit(drawn: NoiseDrawn, noise_variance: ArrayLike, draw: Draw, access: str) -> Array | None:
    """The largest variance of a client, so that shares of it are at most 1; None: clients draw their noise."""
    _validate.one_of(get_args(NoiseDrawn), noise_drawn=drawn)
    if drawn == "by client":
        return None
    if access != "multiple" or draw.knowledge is not None:
        raise ValueError(
            "noise_drawn must be 'by client' unless uploads add up with known gains, got 'as one': "
            "the server, or its antennas, receive more than one sum"
        )
    return jnp.asarray(noise_variance, jnp.float32).max()


def _squared(level: Level, who: Cohort) -> float | Array:
    return 1.0 if is_one(level) else jnp.square(level_of_cohort(level, who))


def _truncated(draw: Draw, truncation: ArrayLike) -> Draw:
    """`draw` without the clients whose channel is too weak in this round."""
    weaker = truncated(draw, _validate.array(_validate.positive, truncation=truncation))

    def init(key: Key, n: int) -> PyTree:
        _validate.per_client(n, truncation=truncation)
        return weaker.init(key, n)

    return weaker._replace(init=init)


def one_for_each_client(noise_variance: ArrayLike, snr_db: ArrayLike | None) -> Callable[[Key, int], tuple]:
    """`init` of a layer that refuses variances and powers which are neither one nor one for each client."""
    return one_for_each(noise_variance=noise_variance, **({} if snr_db is None else {"snr_db": snr_db}))


def power_of_use(snr_db: ArrayLike, receiver_noise: float | Array) -> Array:
    """P_k / d, energy of a channel use, from the transmit SNR in dB.

    Raises:
      ValueError: a number that float32 cannot hold, or noise that is not > 0.
    """
    _validate.each(_validate.decibels, snr_db=snr_db)
    return _validate.positive(receiver_noise=receiver_noise) * 10.0 ** (jnp.asarray(snr_db, jnp.float32) / 10)

"""Uploads of clients that do not know their channels: one amplitude for all, and several antennas, combined."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Antennas, Bits, Cohort, Key, Layer, Received, Sent
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.layers.channel_symbols import Length, PerUse, coordinates_of, disclose_length, symbols_of
from fedjax_priv.layers.noise_gaussian import of_clients
from fedjax_priv.layers.stacking import stateless
from fedjax_priv.layers.sum_pilots import SumPilots, checked_pilots

Amplitude = float | Array | Callable[[int], ArrayLike]
"""b > 0: a number, or a function of the number of parameters d."""


def blind_mean(
    amplitude: Amplitude = 1.0,
    *,
    power: ArrayLike = 1.0,
    pilots: SumPilots | None = None,
    every_antenna: bool = False,
    measured_gains: bool = True,
    coordinates_per_use: PerUse = 1,
) -> Layer:
    """Clients send `b x_k`; the server's estimate of the mean is `Re z / (b sum_k E|h_k|^2)` of the antennas combined.

    `z = (1/M) sum_m conj(S_m) y_m`, with what the server knows of `S_m = sum_k h_km` (Amiri, Duman, Gunduz, Kulkarni
    and Poor, "Blind federated edge learning", 2021). Client k has the weight `E|h_k|^2`, so those of equal power have
    the mean. `theory.wireless.combined_error` has its error. Each number takes a complex use of the channel, or
    two take one as its real and imaginary part, and the estimate is z.

    Measured, for every client: `gain`, root mean square over its antennas, `mean_power`, the mean of `E|h_k|^2`,
    `join_probability`, and of its pilots `pilot_uses` in turns or `common_pilot_uses` at once, and
    `pilot_energy`; for those that send, else 0: the `amplitude` 1, in units of b, the `energy` `b^2 ||x_k||^2`, and
    `channel_uses`, 2 m real ones of m symbols, see `complex_symbols`.

    Args:
      amplitude: b > 0, or a function of d that returns it; may be traced.
      power: E|h_k|^2 at an antenna, > 0, of all clients or `[n]`.
      pilots: of the draw, a `channels.SumPilots`; None: the server knows the sum, at no cost.
      every_antenna: as of `channels.antenna_array`, which stands below.
      coordinates_per_use: 1 or 2, of an update in a complex use; as of `channels.antenna_array`.
      measured_gains: also measure `antenna_gains` `[2 M]`, real and imaginary parts of a client's gains; privacy
        figures need them if clients add noise. A run of T rounds and K clients keeps 8 T K M bytes of them.

    Raises:
      ValueError: an argument outside its range; the number of powers is neither 1 nor the population (by `init`); or,
        when a round is traced, there are no antennas.

    Examples:
      >>> send = stack(clip=clip(1.0), mean=blind_mean(0.5), send=waveform())
    """
    taken = taken_of(every_antenna, coordinates_per_use)
    _validate.one_of((True, False), measured_gains=measured_gains)
    if not callable(amplitude):
        amplitude = _validate.positive(amplitude=amplitude)
    pilots = checked_pilots(pilots)
    weights = _validate.array(_validate.positive, power=power)
    of_size = lambda d: jnp.asarray(amplitude(d) if callable(amplitude) else amplitude, jnp.float32)

    def init(key: Key, n: int) -> tuple:
        del key
        _validate.per_client(n, power=power)
        return ()

    def advertise(key: Key, state: tuple, cohort: Cohort) -> tuple[tuple, dict[str, Array], Bits]:
        """The server has its pilots, and may know all gains."""
        del key, state
        links, weight = links_of(cohort), only_rows(cohort.selected, of_clients(weights, cohort)).sum()
        power = weight / jnp.maximum(cohort.selected.sum(), 1).astype(jnp.float32)
        return (), {"gain": links.gain, "total": links.total[0], "weight": weight, "power": power}, {}

    def encode(key: Key, private: tuple, public: PyTree, x: Float[Array, "b d"], cohort: Cohort) -> tuple:
        del key, private
        length, y = Length(x.shape[1]), of_size(x.shape[1]) * x
        uses = 2 * (-(-x.shape[1] // coordinates_per_use))
        known = _measured(cohort, public["power"], pilots, gains=measured_gains)
        sent = {"amplitude": jnp.ones_like(cohort.gain), "energy": jnp.square(y).sum(1)}
        sent["channel_uses"] = jnp.full_like(cohort.gain, uses)
        if coordinates_per_use == 2:
            y = symbols_of(y, 2)
        if every_antenna:
            y = jnp.tile(y, (1, 2 // coordinates_per_use * links_of(cohort).gain.shape[1]))
        return y, (), Sent(measured=known | only_rows(cohort.selected, sent), clear=length)

    def decode(header: Length, public: dict[str, Array], received: Received) -> Received:
        total, heard = public["total"], received.value
        m = total.shape[0]
        if every_antenna:
            whole = combined(heard.reshape(len(heard), m, 2, -1), total[None], coordinates_per_use)
        else:  # the channel has combined them
            whole = heard * strength(total) / m
        if coordinates_per_use == 2:
            whole = coordinates_of(whole, header, 2)
        mean = whole / (of_size(header.num_params) * public["weight"])
        return received._replace(value=mean, count=jnp.ones_like(received.count))

    return stateless()._replace(
        init=init, advertise=advertise, encode=encode, disclose=disclose_length, decode=decode, antennas=taken
    )


def _measured(cohort: Cohort, power: Array, pilots: SumPilots | None, *, gains: bool) -> dict[str, Array]:
    """What `blind_mean` measures of every client, whether it sends or not."""
    told = {} if pilots is None else {"pilot_energy": pilots.energy, **pilots.uses}
    told["mean_power"] = power
    all_of = lambda value: jnp.broadcast_to(jnp.asarray(value, jnp.float32), cohort.gain.shape)
    known = {"gain": cohort.gain, "join_probability": cohort.participation}
    known |= {name: all_of(value) for name, value in told.items()}
    if gains:
        stacked = jnp.moveaxis(links_of(cohort).gain, 2, 1)
        known["antenna_gains"] = stacked.reshape(len(stacked), -1)
    return known


def taken_of(every_antenna: bool, coordinates_per_use: PerUse) -> str:
    """What is taken of several antennas, as `Layer.antennas` and `Channel.antennas` state it.

    Raises:
      ValueError: `coordinates_per_use` is neither 1 nor 2, or `every_antenna` no bool.
    """
    _validate.one_of((True, False), every_antenna=every_antenna)
    _validate.one_of((1, 2), coordinates_per_use=coordinates_per_use)
    return ("each" if every_antenna else "combined") + (" of pairs" if coordinates_per_use == 2 else "")


def links_of(cohort: Cohort) -> Antennas:
    """Of a cohort that several antennas hear.

    Raises:
      ValueError: none do.
    """
    if not isinstance(cohort.antennas, Antennas):
        raise ValueError("cohort must have links to several antennas, of clients.heard_by_antennas(...), got none")
    return cohort.antennas


def combined(
    heard: Float[Array, "g M 2 m"], total: Float[Array, "#g M 2"], coordinates_per_use: PerUse
) -> Float[Array, "g n"]:
    """`z = (1/M) sum_m conj(S_m) y_m`: its real parts, and then its imaginary parts if they carry coordinates too."""
    along = [total, turned(total)][:coordinates_per_use]
    return jnp.concatenate([(heard * by[..., None]).sum((-3, -2)) for by in along], axis=1) / heard.shape[1]


def turned(total: Float[Array, "... M 2"]) -> Float[Array, "... M 2"]:
    """`j S_m`: the real part of its conjugate times a number is the imaginary part of `conj(S_m)` times it."""
    return jnp.stack([-total[..., 1], total[..., 0]], axis=-1)


def strength(total: Float[Array, "... M 2"]) -> Float[Array, "..."]:
    """N, `n^2 = sum_m |S_m|^2`."""
    return jnp.sqrt(jnp.square(total).sum((-2, -1)))


def common_amplitude(power: Any, *, max_norm: float | Array, noise_variance: ArrayLike) -> Callable[[int], Array]:
    """The amplitude b that every client has the power for, whatever its update: of d.

    `b = min_k sqrt(P_k / (L^2 + d sigma_k^2))`; with noise, P_k is the mean energy of a round.

    Args:
      power: P_k / d, mean energy of a channel use, one for all clients or `[n]`.
      max_norm: L, the norm updates were clipped to.
      noise_variance: sigma_k^2, of all clients or `[n]`.
    """
    variance = _validate.array(_validate.non_negative, noise_variance=noise_variance)
    return lambda d: jnp.sqrt((power * d / (jnp.square(max_norm) + d * variance)).min())

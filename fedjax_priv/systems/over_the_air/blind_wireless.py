"""Federated learning over the air with a server of many antennas, and clients that know nothing of their channel."""

from typing import Literal

from jax.typing import ArrayLike
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Layer, Local
from fedjax_priv.channels import AntennaFading, SumPilots, antenna_array, rayleigh_antennas
from fedjax_priv.clients import heard_by_antennas
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import blind_mean, gaussian_noise, stack, waveform
from fedjax_priv.layers import clip as clip_to
from fedjax_priv.layers.blind_combining import Amplitude, common_amplitude
from fedjax_priv.systems._arguments import Run
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems.over_the_air.analog_uploads import one_for_each_client, power_of_use
from fedjax_priv.systems.releases import BlindUploads


@of_known_arguments
def blind_wireless(
    local: Local,
    *,
    antennas: int = 16,
    clip: float | Array = 1.0,
    noise_variance: ArrayLike = 0.1,
    receiver_noise: float | Array = 1.0,
    amplitude: float | Array | None = None,
    snr_db: ArrayLike | None = None,
    pilots: Literal["individual", "common"] = "individual",
    pilot_energy: float | Array | None = None,
    every_antenna: bool = False,
    coordinates_per_use: Literal[1, 2] = 1,
    fading: AntennaFading | None = None,
    **run: Run,
) -> Algorithm:
    """`w <- w - Re z / (b K)`: all clients send `b (g_k + n_k)` at once, and the server combines what M antennas hear.

    Blind federated edge learning (Amiri, Duman, Gunduz, Kulkarni and Poor 2021). No client knows its channel or inverts
    it, so all have the same energy, and all send in every round. The server knows the sum of their gains at each
    antenna from pilots, `z = (1/M) sum_m conj(S_m) y_m`. The error that fading makes falls as 1/M and not with the
    number of clients. A client's weight in the mean is proportional to the mean power with which it is received.

    The server has what all antennas hear, and with more of them it separates clients better: antennas are no privacy.

    Args:
      local: what a client computes.
      antennas: M, of the server.
      clip: largest Euclidean norm of what a client sends, before noise (L).
      noise_variance: variance of the privacy noise at each coordinate (sigma_k^2), of every client or `[n]`.
      receiver_noise: variance of an antenna's noise in each real dimension (N0).
      amplitude: b, at which all clients send; 1 if neither it nor `snr_db` is given.
      snr_db: power limit as transmit SNR P_k / (d N0) in dB, of every client or `[n]`. Then b is the largest that all
        of them have the power for.
      pilots: "individual": each client sends its own pilot, in turns; "common": all send one at once, which is
        enough for the sum.
      pilot_energy: E_p > 0 of a client and round; the server knows the sum, at no cost, if not given.
      every_antenna: what is received is that of every antenna, as the server has it in truth, 2 M d numbers: for
        audits and small models. The estimate has the same law.
      coordinates_per_use: of an update in a complex use of the channel. 1: the real part of a symbol. 2: real and
        imaginary part, as the paper has it: half the uses, and they mix.
      fading: gains of the links, `channels.rayleigh_antennas` or `recorded_antennas`; independent Rayleigh gains, new
        in each round, if not given.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: an argument outside its range, or both `amplitude` and `snr_db`.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.fedsgd(loss)
      >>> system = blind_wireless(local, antennas=64, clip=1.0, noise_variance=0.01, snr_db=10.0, pilot_energy=10.0)
    """
    _validate.one_of((True, False), every_antenna=every_antenna)
    _validate.positive(clip=clip)
    links = rayleigh_antennas() if fading is None else fading
    pilot = _pilot(pilots, pilot_energy, receiver_noise)
    draw = heard_by_antennas(antennas, links, pilot)
    b = _amplitude(amplitude, snr_db, receiver_noise, clip, noise_variance)
    silent = _validate.is_known_as(0, noise_variance)
    sends = blind_mean(
        b, power=links.power, pilots=pilot, every_antenna=every_antenna, measured_gains=not silent,
        coordinates_per_use=coordinates_per_use,
    )  # fmt: skip
    return federated_round(
        cohort=draw,
        local=local,
        layers=stack(
            clip=clip_to(clip), noise=_own_noise(noise_variance, snr_db), mean=sends,
            send=waveform(),
        ),
        channel=antenna_array(
            receiver_noise, every_antenna=every_antenna, coordinates_per_use=coordinates_per_use
        ),
        aggregate=mean(),
        release=BlindUploads(
            clip=clip, noise_variance=noise_variance, receiver_noise=receiver_noise, antennas=antennas, amplitude=b,
            every_antenna=every_antenna, anew=links.anew, link_power=links.power,
            coordinates_per_use=coordinates_per_use,
        ),
        **run,
    )  # fmt: skip


def _pilot(
    pilots: Literal["individual", "common"], energy: float | Array | None, receiver_noise: float | Array
) -> SumPilots | None:
    _validate.one_of(("individual", "common"), pilots=pilots)
    if energy is None:
        if pilots != "individual":
            raise ValueError(f"pilot_energy must be given with pilots={pilots!r}, got None")
        return None
    return SumPilots(pilots, energy, receiver_noise)


def _own_noise(noise_variance: ArrayLike, snr_db: ArrayLike | None) -> Layer:
    """Noise of each client; variances and powers are one for all clients, or one for each."""
    return gaussian_noise(noise_variance)._replace(init=one_for_each_client(noise_variance, snr_db))


def _amplitude(
    amplitude: float | Array | None,
    snr_db: ArrayLike | None,
    receiver_noise: float | Array,
    clip: float | Array,
    noise_variance: ArrayLike,
) -> Amplitude:
    if snr_db is None:
        return 1.0 if amplitude is None else _validate.positive(amplitude=amplitude)
    if amplitude is not None:
        raise ValueError(f"amplitude must not be given with snr_db, got {amplitude!r}")
    power = power_of_use(snr_db, receiver_noise)
    return common_amplitude(power, max_norm=clip, noise_variance=noise_variance)

"""Both halves of a noisy sum of clipped updates, with a clipping norm that stays or one that adapts."""

from typing import NamedTuple

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import Aggregator, Local
from fedjax_priv.clients import bounded, bounded_and_counted
from fedjax_priv.crypto import field
from fedjax_priv.server_noise import Clipping, ServerNoise, adaptive_noisy_sum, noisy_sum
from fedjax_priv.systems.central_noise.sampling import Sampling
from fedjax_priv.systems.central_noise.split_noise import split_noise

FINEST = 2.0**20
"""Most grid points of a secure sum per clipping norm: float32 has a few more bits."""


class ClippedSum(NamedTuple):
    """What a system is made of for one kind of clipping."""

    local: Local
    aggregate: Aggregator
    levels: float  # of the quantizer, if the sum is secure


class Weights(NamedTuple):
    """Weights of clients, public but for their number of samples."""

    cap: float | None
    mean: float


def clipped_sum(
    local: Local,
    sampled: Sampling,
    weights: Weights,
    noise: ServerNoise,
    noise_multiplier: float | Array,
    clip: float | Array,
    *,
    secure: bool,
) -> ClippedSum:
    """Updates are clipped to one norm, and the server adds noise of `noise_multiplier` times it."""
    levels = _levels(sampled.most, 1.0)
    training = bounded(local, clip=clip, weight_cap=weights.cap, margin=_margin(levels, secure))
    factor = clip / (sampled.expected * weights.mean)
    return ClippedSum(training, noisy_sum(noise, noise_multiplier, factor), levels)


def adapted_sum(
    local: Local,
    sampled: Sampling,
    weights: Weights,
    noise: ServerNoise,
    noise_multiplier: float | Array,
    clipping: Clipping,
    *,
    count_noise: float | None,
    secure: bool,
) -> ClippedSum:
    """The clipping norm follows a quantile; the noise is that of `split_noise`.

    Without `count_noise` it is a twentieth of the expected number of clients, as Andrew et al. 2021 recommend.
    """
    _validate.known(noise_multiplier=noise_multiplier)
    split = split_noise(float(noise_multiplier), sampled.expected / 20 if count_noise is None else count_noise)
    levels = _levels(sampled.most, max(1.0, split.bit / 2))
    training = bounded_and_counted(local, bit=split.bit, weight_cap=weights.cap, margin=_margin(levels, secure))
    aggregate = adaptive_noisy_sum(
        noise, split.deviation, 1 / (sampled.expected * weights.mean), clipping=clipping, bit=split.bit,
        clients=sampled.expected,
    )  # fmt: skip
    return ClippedSum(training, aggregate, levels)


def _margin(levels: float, secure: bool) -> float:
    return 1 / levels if secure else 0.0


def _levels(clients: int, largest: float) -> float:
    """Grid points per clipping norm, a power of two: no sum of values up to `largest` leaves the field."""
    most = int((field.HALF // clients - 2) / largest)
    return min(FINEST, 2.0 ** (most.bit_length() - 1))

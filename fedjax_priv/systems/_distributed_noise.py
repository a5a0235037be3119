"""Clipping and distributed noise as options of several systems: their layers, and what they release."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import Layer
from fedjax_priv.layers import clip as clip_to
from fedjax_priv.layers import skellam_noise
from fedjax_priv.layers.secure_sum.circle import CONNECTED
from fedjax_priv.systems.releases import DistributedNoise

IGNORANT = "Byzantine clients know no other's update"
ACCEPTED = "each honest client's proof is accepted, as it is but for a probability of 2**-39"


class Noise(NamedTuple):
    """Layers by name, above and below the quantizer, and the noise as a part of the release."""

    above: dict[str, Layer]
    below: dict[str, Layer]
    released: DistributedNoise | None  # None: no noise


def distributed_noise(
    clip: float | Array | None,
    noise_variance: float | Array | None,
    levels: float | Array,
    *,
    max_terms: int,
    **about: Any,
) -> Noise:
    """Updates of norm at most `clip`, and Skellam noise of `noise_variance` at each coordinate, in their units.

    Args:
      clip: largest norm of what a client adds to the sum, its weight included; None leaves updates as they are.
      noise_variance: of each client's noise; None adds none.
      levels: grid points of the quantizer per unit.
      max_terms: the largest number of uploads in a sum.
      **about: `group_size` and other fields of `DistributedNoise` that this cannot compute.

    Raises:
      ValueError: noise without `clip`, or an argument outside its range, or traced where there is noise.
    """
    if clip is not None:
        _validate.positive(clip=clip)
    above = {} if clip is None else {"clip": clip_to(clip)}
    if noise_variance is None:
        return Noise(above=above, below={}, released=None)
    if clip is None:
        raise ValueError("clip must be given with noise_variance: noise protects only updates of bounded norm")
    _validate.known(clip=clip, noise_variance=noise_variance, levels=levels)
    _validate.non_negative(noise_variance=noise_variance)
    _validate.positive(levels=levels)
    variance, max_norm = float(levels) ** 2 * float(noise_variance), float(levels) * float(clip)
    below = {"noise": skellam_noise(variance, max_norm=max_norm, max_terms=max_terms)}
    released = DistributedNoise(noise_variance=variance, max_norm=max_norm, clip=float(clip), **about)
    return Noise(above=above, below=below, released=released)


def condition_of(masks: Mapping[str, Any], *, attacked: bool = False, proved: bool = False) -> str:
    """Under what the noise of all honest clients is in a sum.

    Args:
      masks: options of its masks.
      attacked: whether somebody attacks.
      proved: whether uploads are left out whose sender does not prove that they are short.
    """
    few = masks.get("neighbours", "all") != "all"
    return "; ".join([IGNORANT] * attacked + [CONNECTED] * few + [ACCEPTED] * proved)

"""Clipping and distributed noise as options of several systems: their layers, and what the ledger is told of them."""

from typing import Any, NamedTuple

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import Layer
from fedjax_priv.layers import clip as clip_to
from fedjax_priv.layers import skellam_noise


class Noise(NamedTuple):
    """Layers by name, none where there is no noise, and terms of the release."""

    above: dict[str, Layer]  # the quantizer
    below: dict[str, Layer]
    terms: dict[str, Any]


def distributed_noise(
    clip: float | Array | None,
    noise_variance: float | Array | None,
    levels: float | Array,
    *,
    max_terms: int,
    group_size: int,
    threshold: int = 1,
    num_values: int | None = None,
    byzantine: int = 0,
    condition: str = "",
) -> Noise:
    """Updates of norm at most `clip`, and Skellam noise of `noise_variance` at each coordinate, in their units.

    Args:
      clip: largest norm of what a client adds to the sum, its weight included; None leaves updates as they are.
      noise_variance: of each client's noise; None adds none.
      levels: grid points of the quantizer to a unit.
      max_terms: most uploads in a sum.
      group_size: as in `ledger.distributed_noise`.
      threshold: as there.
      num_values: as there.
      byzantine: as there.
      condition: as there.

    Raises:
      ValueError: noise without `clip`, or an argument outside its range, or traced where there is noise.
    """
    above = {} if clip is None else {"clip": clip_to(clip)}
    if noise_variance is None:
        return Noise(above, {}, {})
    if clip is None:
        raise ValueError("clip must be given with noise_variance: noise hides nothing of what is not bounded")
    _validate.known(clip=clip, noise_variance=noise_variance, levels=levels)
    _validate.non_negative(noise_variance=noise_variance)
    _validate.positive(levels=levels)
    grid = {"noise_variance": float(levels) ** 2 * float(noise_variance), "max_norm": float(levels) * float(clip)}
    about = dict(
        num_values=num_values, group_size=group_size, threshold=threshold, byzantine=byzantine, condition=condition
    )
    return Noise(
        above, {"noise": skellam_noise(**grid, max_terms=max_terms)}, {"noise": grid | about, "clip": float(clip)}
    )

"""One Gaussian mechanism for updates and bits together: how its noise is divided between them."""

from typing import NamedTuple

from fedjax_priv import _validate


class SplitNoise(NamedTuple):
    """Noise of one deviation on updates of norm 1 and a bit, which are one vector."""

    deviation: float  # z_D, over the clipping norm
    bit: float  # size of the bit, z_D / s_b


def split_noise(noise_multiplier: float, count_noise: float) -> SplitNoise:
    """`z_D = (z^-2 - (2 s_b)^-2)^(-1/2)`, with the bit scaled to z_D / s_b (Andrew et al. 2021, Theorem 1).

    A client moves the vector by at most `sqrt(1 + (z_D / s_b)^2 / 4) = z_D / z`: the round is one Gaussian mechanism of
    multiplier z. Without noise, z = 0, the bit has size 1.

    Args:
      noise_multiplier: z, >= 0, of the round.
      count_noise: s_b, > z / 2, deviation of the noise on the number of updates that are not clipped.

    Raises:
      ValueError: an argument outside its range, or traced.
    """
    _validate.known(noise_multiplier=noise_multiplier, count_noise=count_noise)
    _validate.non_negative(noise_multiplier=noise_multiplier)
    _validate.positive(count_noise=count_noise)
    if noise_multiplier == 0:
        return SplitNoise(0.0, 1.0)
    if count_noise <= noise_multiplier / 2:
        raise ValueError(
            f"count_noise must be above noise_multiplier / 2 = {noise_multiplier / 2:g}, which the round has in all, "
            f"got {count_noise:g}"
        )
    deviation = float((noise_multiplier**-2 - (2 * count_noise) ** -2) ** -0.5)
    return SplitNoise(deviation, deviation / float(count_noise))

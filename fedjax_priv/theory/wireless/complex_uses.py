"""Errors of a mean over the air, if a complex channel use carries one coordinate of an update, or two.

User k arrives with a complex coefficient u_k, independent over users, and the server divides by `c R E u`. A single
coordinate is the real part of a symbol, and the server takes the real part. Two coordinates are the real and the
imaginary part, as in most papers on analog aggregation: this takes half the uses, but each coordinate disturbs the
other through Im u.
"""

from typing import Literal, NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result


class CombinedError(NamedTuple):
    """Mean squared error of the estimate of a mean, E||. - mean||^2, by its cause."""

    fading: Result  # users arrive with random coefficients
    own_noise: Result  # noise of the users
    receiver_noise: Result


def misaligned_error(
    mean: Numbers,
    real: Numbers,
    imaginary: Numbers,
    *,
    senders: Numbers,
    mean_square: Numbers,
    num_params: Numbers,
    noise_variance: Numbers = 0.0,
    receiver_noise: Numbers = 0.0,
    level: Numbers = 1.0,
    coordinates_per_use: Literal[1, 2] = 1,
) -> CombinedError:
    """What is the error of `y / (c R E u)`, an unbiased estimate of the mean of R updates?

    Fading contributes `V Var Re u / (R (E u)^2)`. With two coordinates per complex use, it contributes
    `V (Var Re u + Var Im u) / (R (E u)^2)`: twice as much if only pilots err, and far more if phases err. Each
    coordinate has the same receiver noise in both cases.

    Args:
      mean: E u, real and not 0, from `estimated_coefficient` or `turned_coefficient`.
      real: Var Re u >= 0, half the variance of `estimated_coefficient`.
      imaginary: Var Im u >= 0.
      senders: R >= 1.
      mean_square: V, the mean of ||g_k||^2 over senders.
      num_params: d.
      noise_variance: sigma^2 >= 0 of each sender's own noise.
      receiver_noise: N0 >= 0, of each real dimension.
      level: c > 0.
      coordinates_per_use: with 2, d must be even. If it is odd, add the error of the last coordinate, which is alone:
        that of `num_params=1` with one per use.

    Raises:
      ValueError: an argument outside its range.

    Examples:
      >>> turned = (0.7261, 0.1117, 0.3610)  # phases that err by 0.8 rad
      >>> for number in (1, 2):
      ...     error = misaligned_error(*turned, senders=10, mean_square=1.0, num_params=8, coordinates_per_use=number)
      ...     print(round(float(error.fading), 4))
      0.0212
      0.0897
    """
    r, d = _validate.integer(senders=senders), checked_pairs(num_params, coordinates_per_use)
    square = _validate.real("(-inf, inf)", mean=mean) ** 2
    scattered = _validate.real("[0, inf)", real=real)
    if coordinates_per_use == 2:
        scattered = scattered + _validate.real("[0, inf)", imaginary=imaginary)
    apart = _validate.real("[0, inf)", mean_square=mean_square) / r
    own = d * _validate.real("[0, inf)", noise_variance=noise_variance) / r
    heard = d * _validate.real("[0, inf)", receiver_noise=receiver_noise)
    c = _validate.real("(0, inf)", level=level)
    return CombinedError(apart * scattered / square, own * (1 + scattered / square), heard / (r**2 * c**2 * square))


def checked_per_use(coordinates_per_use: int) -> int:
    """1 or 2."""
    if coordinates_per_use not in (1, 2):
        _validate.fail("coordinates_per_use", coordinates_per_use, "1 or 2")
    return coordinates_per_use


def checked_pairs(num_params: Numbers, coordinates_per_use: int) -> np.ndarray:
    """The number of parameters, which must fill whole complex uses."""
    d = _validate.integer(num_params=num_params)
    if checked_per_use(coordinates_per_use) == 2 and (d % 2).any():
        _validate.fail("num_params", num_params, "even with coordinates_per_use=2: add the error of the last one alone")
    return d

"""Closed forms for digital uploads through a fading channel, and for analog uploads through the same channel.

Real baseband: a channel use has power P, gain h and noise N0, and `snr = P / N0`. A rate is in bits per use. Unless
stated otherwise, fading is Rayleigh with mean square gain 1.
"""

import numpy as np
from scipy import special

from fedjax_priv.theory import _validate
from fedjax_priv.theory._exponential_integral import scaled_exp1
from fedjax_priv.theory._validate import Numbers, Result


def rate(snr: Numbers, gain: Numbers = 1.0) -> Result:
    """How many bits does a channel use carry? Shannon's `log2(1 + h**2 snr) / 2`.

    Args:
      snr: of the sender's power, >= 0.
      gain: amplitude h, >= 0.

    Examples:
      >>> float(rate(15.0))
      2.0
    """
    snr, gain = _validate.real("[0, inf)", snr=snr), _validate.real("[0, inf)", gain=gain)
    return np.log1p(gain**2 * snr) / (2 * np.log(2))


def outage(fixed_rate: Numbers, snr: Numbers) -> Result:
    """How often is a fixed rate too high, if the sender does not know its gain? `1 - exp(-(2**(2 r) - 1) / snr)`.

    Args:
      fixed_rate: r >= 0, bits per use.
      snr: mean, > 0.

    Examples:
      >>> round(float(outage(1.259132, 10.0)), 6)
      0.376803
    """
    fixed_rate = _validate.real("[0, inf)", fixed_rate=fixed_rate)
    return -np.expm1(-np.expm1(2 * fixed_rate * np.log(2)) / _validate.real("(0, inf)", snr=snr))


def best_fixed_rate(snr: Numbers) -> Result:
    """Which fixed rate maximizes `r (1 - outage)`? `W(snr) / (2 ln 2)`, with Lambert's W.

    Args:
      snr: mean, > 0.

    Examples:
      >>> round(float(best_fixed_rate(10.0)), 6)
      1.259132
    """
    return special.lambertw(_validate.real("(0, inf)", snr=snr)).real / (2 * np.log(2))


def ergodic_rate(snr: Numbers) -> Result:
    """How many bits per use on average, if the sender knows its gain? `exp(1/snr) E_1(1/snr) / (2 ln 2)`.

    Args:
      snr: mean, > 0.

    Examples:
      >>> round(float(ergodic_rate(10.0)), 4)
      1.4533
    """
    return scaled_exp1(1 / _validate.real("(0, inf)", snr=snr)) / (2 * np.log(2))


def bits_of_a_turn(uses: Numbers, users: Numbers, energy: Numbers, noise: Numbers, gain: Numbers = 1.0) -> Result:
    """How many bits does each user send, if users share the channel uses of a round?

    In turns (TDMA) a user has N / r uses and spends its energy in them, `E r / N` per use. In separate bands (OFDMA) a
    user has as many uses at the same power, and sends as many bits.

    Args:
      uses: N > 0, channel uses of the round.
      users: r >= 1.
      energy: E >= 0 of a user in the round.
      noise: N0 > 0.
      gain: h of the user.

    Examples:
      >>> round(float(bits_of_a_turn(7850, 20, energy=78500.0, noise=1.0)))
      1502
    """
    uses, users = _validate.real("(0, inf)", uses=uses), _validate.integer(users=users)
    noise = _validate.real("(0, inf)", noise=noise)
    return uses / users * rate(_validate.real("[0, inf)", energy=energy) * users / uses / noise, gain)


def digital_distortion(size: Numbers, uses: Numbers, users: Numbers, energy: Numbers, noise: Numbers) -> Result:
    """How large is the error of a mean of digital uploads? At least `2**(-2 b) / r` of the variance of a coordinate.

    b is the number of bits per coordinate. For independent white Gaussian updates that are coded separately, and unit
    gains.

    Args:
      size: d, coordinates of an update, > 0.
      uses: as in `bits_of_a_turn`, like the other arguments.
      users: r.
      energy: of a user.
      noise: N0.

    Examples:
      >>> round(float(digital_distortion(7850, 7850, 20, energy=78500.0, noise=1.0)), 6)
      0.038354
    """
    bits = bits_of_a_turn(uses, users, energy, noise) / _validate.real("(0, inf)", size=size)
    return 4.0**-bits / _validate.integer(users=users)


def analog_distortion(size: Numbers, users: Numbers, energy: Numbers, noise: Numbers) -> Result:
    """How large is the error of a mean of analog uploads that add on the air? `d N0 / (r**2 E)` of an update's ||x||^2.

    Each channel use carries a coordinate of all users at once, so there are d uses for any r.

    Args:
      size: d.
      users: r.
      energy: of a user.
      noise: N0.

    Examples:
      >>> float(analog_distortion(7850, 20, energy=78500.0, noise=1.0))
      0.00025
    """
    size, users = _validate.real("(0, inf)", size=size), _validate.integer(users=users)
    return size * _validate.real("(0, inf)", noise=noise) / users**2 / _validate.real("(0, inf)", energy=energy)

"""What digital uploads get through a fading channel, and what analog ones get through the same: closed forms.

Real baseband: a use of the channel has power P, gain h and noise N0, and `snr = P / N0`. A rate is in bits a use.
Fading is Rayleigh with mean square gain 1 where nothing else is said.
"""

import numpy as np
from scipy import special

from fedjax_priv.theory import _validate
from fedjax_priv.theory._exponential_integral import scaled_exp1
from fedjax_priv.theory._validate import Numbers, Result


def rate(snr: Numbers, gain: Numbers = 1.0) -> Result:
    """How many bits does a use of the channel carry? Shannon's `log2(1 + h**2 snr) / 2`.

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
    """How often is a fixed rate too much, where the sender does not know its gain? `1 - exp(-(2**(2 r) - 1) / snr)`.

    Args:
      fixed_rate: r >= 0, bits a use.
      snr: mean, > 0.

    Examples:
      >>> round(float(outage(1.259132, 10.0)), 6)
      0.376803
    """
    fixed_rate = _validate.real("[0, inf)", fixed_rate=fixed_rate)
    return -np.expm1(-np.expm1(2 * fixed_rate * np.log(2)) / _validate.real("(0, inf)", snr=snr))


def best_fixed_rate(snr: Numbers) -> Result:
    """Which fixed rate gets the most through, outages counted? `W(snr) / (2 ln 2)`, W of Lambert.

    Examples:
      >>> round(float(best_fixed_rate(10.0)), 6)
      1.259132
    """
    return special.lambertw(_validate.real("(0, inf)", snr=snr)).real / (2 * np.log(2))


def ergodic_rate(snr: Numbers) -> Result:
    """How many bits a use on average, where the sender knows its gain? `exp(1/snr) E_1(1/snr) / (2 ln 2)`.

    Examples:
      >>> round(float(ergodic_rate(10.0)), 4)
      1.4533
    """
    return scaled_exp1(1 / _validate.real("(0, inf)", snr=snr)) / (2 * np.log(2))


def bits_of_a_turn(uses: Numbers, users: Numbers, energy: Numbers, noise: Numbers, gain: Numbers = 1.0) -> Result:
    """How many bits does each user send, where users share the uses of a round?

    In turns (TDMA) a user has N / r uses and puts its energy into them: energy `E r / N` a use. In separate bands
    (OFDMA) all have as many uses at the same power, and send the same.

    Args:
      uses: N, of the channel in the round, > 0.
      users: r >= 1.
      energy: E of a user for the round, >= 0.
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
    """How far must the mean of digital uploads be off? At least `2**(-2 b) / r` of the variance of a coordinate.

    b are the bits for a coordinate. For independent white Gaussian updates, coded each for itself, unit gains.

    Args:
      size: d, coordinates of an update, > 0.
      uses: of the channel, for all users; as of `bits_of_a_turn`, like the others.
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
    """How far is the mean of analog uploads off that add on the air? `d N0 / (r**2 E)` of an update's squared norm.

    Each use of the channel carries a coordinate of all users at once, so there are d of them whatever r is.

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

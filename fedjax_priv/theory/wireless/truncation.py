"""Truncated channel inversion (Zhu, Wang and Huang 2020): users whose channel is too weak in a round do not send.

Power is a mean over fading. Fading has mean square gain 1, and is Rayleigh unless a Rician factor G is given.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import special

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result

_REACH = 12  # gains further from the peak, in units of the spread, have negligible probability


class Truncation(NamedTuple):
    """Energy and participation with a threshold on the squared gain."""

    energy: Result  # E[1 / h^2; h^2 >= g], the mean energy of a user divided by c^2 (L^2 + d sigma^2)
    sends: Result  # a = P[h^2 >= g]


def truncated_inversion(threshold: Numbers, factor: float = 0.0) -> Truncation:
    """How much energy does inversion take, and how often does a user send? E_1(g) and e^-g for Rayleigh fading.

    Args:
      threshold: g >= 0; at 0 the energy of Rayleigh fading is infinite.
      factor: G >= 0 of Rician fading; if above 0, the results are computed by quadrature.

    Examples:
      >>> energy, sends = truncated_inversion(0.2)
      >>> print(energy.round(4), sends.round(4))
      1.2227 0.8187
      >>> energy, sends = truncated_inversion(0.2, factor=5.0)
      >>> print(energy.round(4), sends.round(4))
      1.2715 0.9674
    """
    g, rice = _validate.real("[0, inf)", threshold=threshold), _validate.number("[0, inf)", factor=factor)
    if rice == 0:
        return Truncation(special.exp1(g), np.exp(-g))
    from scipy import integrate, stats  # slow to import

    peak, spread = np.sqrt(rice / (rice + 1)), np.sqrt(0.5 / (rice + 1))
    law: Any = stats.rice(peak / spread, scale=spread)

    def of(least: float, power: int) -> float:
        if least == 0:
            return np.inf if power else 1.0
        ends = np.sqrt(least), max(np.sqrt(least), peak) + _REACH * spread
        about = np.clip(peak + spread * np.arange(-_REACH, _REACH, 2), *ends)  # or a narrow peak is missed
        return integrate.quad(lambda h: law.pdf(h) / h**power, *ends, points=np.unique(about), epsabs=0, limit=200)[0]

    energy, sends = (np.vectorize(of, otypes=[np.float64])(g, power)[()] for power in (2, 0))
    return Truncation(energy, np.minimum(sends, 1))


def truncation_level(power: Numbers, threshold: Numbers, factor: float = 0.0, *, energy_received: Numbers) -> Result:
    """The level c that mean power P_k allows: `c^2 = P_k / ((L^2 + d sigma^2) E[1 / h^2; h^2 >= g])`.

    Args:
      power: P_k > 0, mean energy of a round, over fading.
      threshold: g, as in `truncated_inversion`.
      factor: G, as in `truncated_inversion`.
      energy_received: L^2 + d sigma^2, the received energy of a user at level 1.

    Examples:
      >>> print(truncation_level(10.0, 0.2, energy_received=1.0).round(4))
      2.8599
    """
    received = _validate.real("(0, inf)", energy_received=energy_received)
    energy = truncated_inversion(threshold, factor).energy
    return np.sqrt(_validate.real("(0, inf)", power=power) / (received * energy))


def truncation_noise(threshold: Numbers, factor: float = 0.0) -> Result:
    """The receiver's noise in `y / (c K a)`, in units of `N0 (L^2 + d sigma^2) / (P_k K^2)`: E[1 / h^2; .] / a^2.

    Infinite if the probability a that a user sends underflows. Arguments are those of `truncated_inversion`.

    Examples:
      >>> print(truncation_noise(np.array([0.2, 0.61, 1.5])).round(3))
      [1.824 1.508 2.009]
    """
    energy, sends = truncated_inversion(threshold, factor)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(sends > 0, energy / sends / sends, np.inf)[()]


def best_truncation(factor: float = 0.0) -> float:
    """The threshold g with the least `truncation_noise`: the root of `2 g E[1 / h^2; h^2 >= g] = a`.

    It silences many users: under Rayleigh fading, only e^-g = 0.54 of them send. If their data differ, this biases the
    mean. `factor` is as in `truncated_inversion`.

    Examples:
      >>> print(round(best_truncation(), 6), truncated_inversion(best_truncation()).sends.round(6))
      0.610058 0.543319
    """
    from scipy import optimize  # slow to import

    def slope(g: float) -> float:
        energy, sends = truncated_inversion(g, factor)
        return float(2 * g * energy - sends)

    return float(np.asarray(optimize.brentq(slope, 1e-9, 1.0, xtol=1e-13)))

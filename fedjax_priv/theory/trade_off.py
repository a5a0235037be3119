"""Trade-off curves (Dong, Roth and Su 2022): the least miss rate of any test between two inputs.

A test sees an output and decides between the first input, with law P, and the second one, with law Q. Its false alarm
rate a is the probability under P that it decides for Q. f(a) is the least probability under Q that it decides for P.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from fedjax_priv.theory import _roots, _validate
from fedjax_priv.theory._validate import Numbers, Result

_POINTS = 8192
_NEXT_TO_NOTHING = 1e-12


def gaussian(alarms: Numbers, mu: Numbers) -> Result:
    """The curve of N(0, 1) and N(mu, 1): f(a) = Phi(Phi^-1(1-a) - mu). A mechanism with this curve is mu-GDP.

    Args:
      alarms: a, in [0, 1].
      mu: >= 0.

    Examples:
      >>> print(gaussian(0.05, mu=1.0).round(3))
      0.74
    """
    a, distance = _validate.real("[0, 1]", alarms=alarms), _validate.real("[0, inf)", mu=mu)
    return ndtr(-ndtri(a) - distance)[()]


def from_profiles(alarms: Numbers, first: Callable[[Numbers], Result], second: Callable[[Numbers], Result]) -> Result:
    """f(a) = sup over eps >= 0 of max(0, 1 - H(Q||P) - e^eps a, e^-eps (1 - H(P||Q) - a)).

    The supremum is over 8,192 values of eps: never above the curve, and below it by about 1e-6.

    Args:
      alarms: a, in [0, 1].
      first: delta as a function of eps >= 0 in the order P, Q: H(P||Q) at e^eps.
      second: the same in the order Q, P.

    Examples:
      >>> from fedjax_priv.theory import gaussian as mechanism
      >>> profile = lambda eps: mechanism.delta(eps, 1.0)
      >>> print(from_profiles(0.05, profile, profile).round(3))
      0.74
    """
    a = _validate.real("[0, 1]", alarms=alarms)
    least = max(_reach(first), _reach(second))
    eps = np.linspace(0, least, _POINTS)
    forth, back = np.asarray(first(eps)), np.asarray(second(eps))

    def bound(a: float) -> float:
        steep = np.exp(eps + np.log(a)) if a > 0 else 0.0
        return max(0.0, np.max(1 - back - steep), np.max((1 - forth - a) * np.exp(-eps)))

    with np.errstate(over="ignore"):
        return np.vectorize(bound, otypes=[np.float64])(a)[()]


def _reach(profile: Callable[[Numbers], Result]) -> float:
    """The eps beyond which delta hardly falls."""
    floor = float(profile(np.float64(_roots.FAR)))
    return float(_roots.unbounded_least(lambda eps: np.asarray(profile(eps)), floor + _NEXT_TO_NOTHING))

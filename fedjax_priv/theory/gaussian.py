"""The Gaussian mechanism: its exact privacy profile (Balle and Wang 2018) and the classical formula.

`sensitivity` is relative to the noise: s, the L2 distance of the two means divided by the noise's standard deviation.
"""

import numpy as np
from scipy.special import erfcx, ndtr, ndtri

from fedjax_priv.theory import _roots, _validate
from fedjax_priv.theory._validate import Numbers, Result

_NODES, _WEIGHTS = (half / 2 for half in np.polynomial.legendre.leggauss(4))  # Gauss-Legendre on [-1/2, 1/2]
_NARROW = 0.05  # below this width, a difference loses digits and an integral does not
_FAR = 40.0  # the density underflows before


def delta(epsilon: Numbers, sensitivity: Numbers) -> Result:
    """Which delta does Gaussian noise have at eps = x? delta(x; s) = Phi(s/2 - x/s) - e^x Phi(-s/2 - x/s).

    It is the hockey-stick divergence of N(s, 1) and N(0, 1) at e^x, accurate to 12 digits even if it is tiny. It is 1
    for infinite s, and max(0, 1 - e^x) for s = 0.

    Args:
      epsilon: x, any real number, or infinite.
      sensitivity: s, in [0, inf].

    Examples:
      >>> print(f"{delta(1.0, sensitivity=0.25):.1e}")
      2.9e-06
    """
    x, s = np.broadcast_arrays(
        _validate.real("[-inf, inf]", epsilon=epsilon), _validate.real("[0, inf]", sensitivity=sensitivity)
    )
    return at_any(x, _delta(np.abs(x), s))


def epsilon(delta: Numbers, sensitivity: Numbers) -> Result:
    """Which eps does Gaussian noise guarantee? The smallest eps with delta(eps; s) <= delta, to machine precision.

    Args:
      delta: in [0, 1]; eps is infinite at 0, unless s = 0.
      sensitivity: s, in [0, inf].

    Examples:
      >>> print(epsilon(1e-5, sensitivity=0.25).round(3))
      0.926
    """
    target, s = np.broadcast_arrays(
        _validate.real("[0, 1]", delta=delta), _validate.real("[0, inf]", sensitivity=sensitivity)
    )
    bounded = np.isfinite(s) & (target > 0) & (target < 1)
    s_or_0 = np.where(bounded, s, 0)
    high = np.maximum(s_or_0 * (s_or_0 / 2 - ndtri(np.where(bounded, target, 0.5))), 0)  # Phi(s/2 - x/s) = delta
    at_zero = _delta(np.zeros(s.shape), s)
    found = _roots.least(lambda x: _delta(x, s_or_0), target, high)
    return np.where(at_zero <= target, 0, np.where(bounded, found, np.inf))[()]


def at_any(epsilon: Numbers, above: Numbers) -> Result:
    """Delta at any real eps, from `above` = delta at |eps|, if both orders of the inputs have the same profile.

    Examples:
      >>> print(at_any(-1.0, delta(1.0, 0.5)).round(4), delta(-1.0, 0.5).round(4))
      0.6346 0.6346
    """
    below = np.minimum(epsilon, 0)
    return np.where(np.less(epsilon, 0), -np.expm1(below) + np.exp(below) * above, above)[()]


def classical_epsilon(delta: Numbers, sensitivity: Numbers) -> Result:
    """eps = s sqrt(2 log(1.25/delta)), proved for eps <= 1; numerically valid up to about 8.4 at delta = 1e-5.

    Args:
      delta: in (0, 1].
      sensitivity: s, in [0, inf].

    Examples:
      >>> print(classical_epsilon(1e-5, sensitivity=0.25).round(3))  # exact: 0.926
      1.211
    """
    s = _validate.real("[0, inf]", sensitivity=sensitivity)
    return s * np.sqrt(2 * np.log(1.25 / _validate.real("(0, 1]", delta=delta)))


def _delta(x: Numbers, s: Numbers) -> Result:
    """Delta at x >= 0: phi(u) (M(u) - M(u + s)), u = x/s - s/2, where M is Mills' ratio."""
    ordinary = (s > 0) & np.isfinite(s)
    s_or_1 = np.where(ordinary, s, 1)
    with np.errstate(over="ignore"):
        u = np.clip(np.where(ordinary, x, 0) / s_or_1 - s_or_1 / 2, -_FAR, _FAR)
    density = np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)
    right = np.maximum(u, 0)
    apart = np.where(u > 0, density * _mills(right), ndtr(-u)) - density * _mills(u + s_or_1)
    narrow = np.minimum(s_or_1, _NARROW)[..., None]  # -M'(t) = 1 - t M(t)
    t = np.maximum(u, -_NARROW)[..., None] + narrow * (_NODES + 0.5)
    near = density * ((narrow * (1 - t * _mills(t))) @ _WEIGHTS)
    return np.where(ordinary, np.where(s < _NARROW, near, apart), s > 0)


def _mills(t: Numbers) -> Result:
    return np.sqrt(np.pi / 2) * erfcx(t / np.sqrt(2))

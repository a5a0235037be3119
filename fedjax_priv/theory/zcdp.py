"""Zero-concentrated differential privacy (Bun and Steinke 2016): Renyi divergences of order alpha are <= alpha rho."""

from typing import Literal

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result

_NEWTON_STEPS = 12


def gaussian_rho(sensitivity: Numbers, sigma: Numbers) -> Result:
    """Which rho has Gaussian noise? Delta^2 / (2 sigma^2) (Lemma 1 of CDP-FL).

    Args:
      sensitivity: Delta, the L2 distance of the two means, >= 0.
      sigma: standard deviation of a coordinate's noise, > 0.

    Examples:
      >>> print(gaussian_rho(sensitivity=1.0, sigma=4.0))
      0.03125
    """
    distance = _validate.real("[0, inf)", sensitivity=sensitivity) / _validate.real("(0, inf)", sigma=sigma)
    return distance**2 / 2


def epsilon(rho: Numbers, delta: Numbers, conversion: Literal["paper", "tight"] = "paper") -> Result:
    """Which eps does rho guarantee at delta, for every rho-zCDP mechanism?

    "paper" is rho + 2 sqrt(rho log(1/delta)) (Lemma 3 of CDP-FL). "tight" is never larger:
    min over alpha > 1 of alpha rho + [log(1/delta) + (alpha-1) log(1-1/alpha) - log alpha] / (alpha-1)
    (Canonne, Kamath and Steinke 2020), or 0. For a Gaussian mechanism neither is exact, but `gaussian.epsilon` is.

    Args:
      rho: >= 0.
      delta: in (0, 1).
      conversion: "paper" or "tight".

    Examples:
      >>> print(epsilon(0.1, 1e-5).round(3), epsilon(0.1, 1e-5, conversion="tight").round(3))
      2.246 1.914
    """
    convert = _validate.choice(_CONVERSIONS, conversion=conversion)
    return convert(_validate.real("[0, inf)", rho=rho), _log_inverse(delta))


def rho(epsilon: Numbers, delta: Numbers) -> Result:
    """For which rho does the paper's conversion give eps? (sqrt(eps + log(1/delta)) - sqrt(log(1/delta)))^2.

    Args:
      epsilon: >= 0.
      delta: in (0, 1).

    Examples:
      >>> print(rho(epsilon=1.0, delta=1e-5).round(4))
      0.0208
    """
    eps, log_inverse = _validate.real("[0, inf)", epsilon=epsilon), _log_inverse(delta)
    return (eps / (np.sqrt(eps + log_inverse) + np.sqrt(log_inverse))) ** 2


def composition(rho: np.ndarray, axis: int = -1) -> Result:
    """The rho of mechanisms that all see the same data, also if each sees earlier outputs: the sum (Lemma 2).

    Args:
      rho: of each mechanism, >= 0.
      axis: the axis of mechanisms.

    Examples:
      >>> print(composition(np.full(10, 0.25)))
      2.5
    """
    return _validate.real("[0, inf)", rho=rho).sum(axis)


def parallel_composition(rho: np.ndarray, axis: int = -1) -> Result:
    """The rho of mechanisms that each see another part of a partition of the data: the largest rho (Lemma 4).

    Arguments and errors are those of `composition`.

    Examples:
      >>> print(parallel_composition(np.array([0.1, 0.3, 0.2])))
      0.3
    """
    return _validate.real("[0, inf)", rho=rho).max(axis)


def _tight(rho: Numbers, log_inverse: Numbers) -> Result:
    """With a = alpha - 1, the derivative is 0 only at rho a^2 + log(1+a) = log(1/delta); Newton's method finds a."""
    root = np.sqrt(np.maximum(rho, 1e-300))
    log_order = np.minimum(log_inverse, np.log1p(np.sqrt(log_inverse) / root))
    for _ in range(_NEWTON_STEPS):  # convex in log(1+a): Newton's steps from above stay above
        a = np.expm1(log_order)
        excess = (root * a) ** 2 + log_order - log_inverse
        log_order = log_order - excess / (2 * root * a * (root * (1 + a)) + 1)
    a = np.expm1(log_order)
    eps = (1 + a) * rho + (log_inverse - log_order) / a - np.log1p(1 / a)
    return np.maximum(eps, 0)


def _log_inverse(delta: Numbers) -> Result:
    return -np.log(_validate.real("(0, 1)", delta=delta))


_CONVERSIONS = {"paper": lambda rho, log_inverse: rho + 2 * np.sqrt(rho * log_inverse), "tight": _tight}

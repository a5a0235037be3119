"""Theorem 2: what a proposed set of coordinates tells about which coordinates of an update are largest.

T_k is the set of the n largest of d coordinates. Adjacent inputs are two sets T_k that differ in one element. A
guarantee protects T_k in one iteration. It does not protect data, since one sample may change many of the n
coordinates, and eps adds up over iterations. Below, y = (1 - alpha) / alpha.
"""

import numpy as np
from scipy.special import logsumexp

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result


def coordinate_epsilon(num_params: Numbers, num_coordinates: Numbers, alpha: Numbers) -> Result:
    """Which eps has a proposal? The exact smallest eps, in O(n); for n >= 2 it is below the printed one.

    e^eps - 1 = [sum_{i=1}^{n} i C(d,i) y^i] / [sum_{i=0}^{n-1} (n-i) C(d,i) y^i], the ratio of eqs. 16-20 for
    |T_k and I| = n and n - 1. Infinite at alpha = 0. It is 0 at alpha = 1 or n = d: nothing depends on T_k then.

    Args:
      num_params: d.
      num_coordinates: n, proposed by a client.
      alpha: the probability in [0, 1] that a proposed coordinate is a random one.

    Raises:
      ValueError: `num_coordinates` above `num_params`.

    Examples:
      >>> print(coordinate_epsilon(num_params=1000, num_coordinates=10, alpha=0.5).round(3))
      6.891
    """
    d, n = check_sizes(num_params, num_coordinates)
    return np.vectorize(_exact, otypes=[np.float64])(d, n, _validate.real("[0, 1]", alpha=alpha))[()]


def coordinate_epsilon_bound(num_params: Numbers, num_coordinates: Numbers, alpha: Numbers) -> Result:
    """ln(1 + y (d-n+1)), an upper bound on `coordinate_epsilon`, and equal to it at n = 1.

    Arguments and errors are those of `coordinate_epsilon`.

    Examples:
      >>> print(coordinate_epsilon_bound(num_params=1000, num_coordinates=10, alpha=0.5).round(3))
      6.9
    """
    d, n = check_sizes(num_params, num_coordinates)
    alpha = _validate.real("[0, 1]", alpha=alpha)
    return np.logaddexp(0, _log_odds(alpha) + np.log(d - n + 1))


def coordinate_epsilon_printed(num_params: Numbers, num_coordinates: Numbers, alpha: Numbers) -> Result:
    """The paper's eps: ln((1+alpha) n (d-n+1) / (2 alpha)); for alpha >= 1/2, eq. 56 if it is smaller.

    Eq. 56 is ln(1 + y (2^n+1) d^n). At n = 1 the first formula is too small exactly if alpha < d / (3d-2), since its
    proof divides by an empty sum. Arguments and errors are those of `coordinate_epsilon`.

    Examples:
      >>> print(coordinate_epsilon_printed(num_params=1000, num_coordinates=10, alpha=0.5).round(3))
      9.607
    """
    d, n = check_sizes(num_params, num_coordinates)
    alpha = _validate.real("[0, 1]", alpha=alpha)
    with np.errstate(divide="ignore"):
        theorem = np.log1p(alpha) + np.log(n * (d - n + 1)) - np.log(2 * alpha)
    near_one = np.logaddexp(0, _log_odds(alpha) + np.logaddexp(0, n * np.log(2)) + n * np.log(d))
    return np.where(alpha >= 0.5, np.minimum(theorem, near_one), theorem)[()]


def check_sizes(num_params: Numbers, num_coordinates: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """d and n; ValueError unless they are integers and 1 <= n <= d."""
    d, n = _validate.integer(num_params=num_params), _validate.integer(num_coordinates=num_coordinates)
    if (n > d).any():
        _validate.fail("num_coordinates", num_coordinates, f"at most num_params = {num_params}")
    return d, n


def _exact(d: float, n: float, alpha: float) -> float:
    if n == d or alpha == 1:
        return 0.0
    if alpha == 0:
        return np.inf
    i = np.arange(n)
    terms = np.append(0, np.cumsum(np.log((d - i) / (i + 1)) + _log_odds(alpha)))  # ln C(d,i) y^i
    return np.logaddexp(0, logsumexp(terms[1:] + np.log(i + 1)) - logsumexp(terms[:-1] + np.log(n - i)))


def _log_odds(alpha: Numbers) -> Result:
    """ln y."""
    with np.errstate(divide="ignore"):
        return np.log1p(-alpha) - np.log(alpha)

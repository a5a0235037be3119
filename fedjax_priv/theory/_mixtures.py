"""Hockey-stick divergences between mixtures of Gaussians of variance 1, as functions of x = log a, any real number."""

import numpy as np
from scipy.special import log_ndtr

from fedjax_priv.theory import gaussian
from fedjax_priv.theory._validate import Numbers, Result


def amplified(epsilon: Numbers, fraction: Numbers) -> Result:
    """Eps after sampling a fraction q: log(1 + q (e^eps - 1)), without overflow.

    It is defined for q > 1 too: with 1/q it is the inverse of the function with q, and -inf where the logarithm is
    undefined (for some eps < 0).
    """
    small, large = np.minimum(epsilon, 1), np.maximum(epsilon, 1)
    with np.errstate(divide="ignore"):
        near = np.log1p(np.maximum(fraction * np.expm1(small), -1))
    return np.where(np.less(epsilon, 1), near, large + np.log(fraction + (1 - fraction) * np.exp(-large)))[()]


def mixed_first(x: Numbers, fraction: Numbers, shift: Numbers) -> Result:
    """H(a; q, t): (1-q) N(0, 1) + q N(t, 1) over a N(0, 1)."""
    inside = np.where(np.greater(fraction, 0), fraction, 1)
    mixed = fraction * gaussian.delta(amplified(x, 1 / inside), shift)
    gap = -np.expm1(np.minimum(x, 0))  # 1 - a
    return np.where(np.greater_equal(x, 0) | (gap < fraction), mixed, gap)


def mixed_second(x: Numbers, fraction: Numbers, shift: Numbers) -> Result:
    """1 - b + b H(1/b; q, t) at b = e^x: N(0, 1) over b [(1-q) N(0, 1) + q N(t, 1)]."""
    left = 1 - np.exp(np.minimum(x, 700)) * (1 - np.asarray(fraction))
    with np.errstate(divide="ignore"):
        inner = x + np.log(fraction) - np.log(np.where(left > 0, left, 1))
    return np.where(left > 0, left * gaussian.delta(inner, shift), 0)


def both_mixed(x: Numbers, fraction: Numbers, first: Numbers, second: Numbers) -> Result:
    """(1-q) N(0, 1) + q N(s, 1) over a [(1-q) N(0, 1) + q N(t, 1)], for x >= 0, s = `first` > 0 and t = `second` < s.

    L_m(u) is the density of N(m, 1) divided by the density of N(0, 1). The divergence is the excess mass above the root
    u of q L_s(u) = (1-q)(a-1) + a q L_t(u), whose left side grows faster. If (s, t) is (c, -c) or (2c, c), w = e^{c u}
    is the root of a quadratic equation.
    """
    q, s, t = np.asarray(fraction), np.asarray(first), np.asarray(second)
    if not ((t == -s) | (2 * t == s)).all():
        raise ValueError(f"second must be -first or first / 2, got {second} with first {first}")
    scale = s - np.maximum(t, 0)
    with np.errstate(divide="ignore"):
        log_q, log_rest = np.log(np.where(q > 0, q, 1)), np.log1p(-q) + _log_expm1(x)
    lead, shared = log_q - s**2 / 2, x + log_q - t**2 / 2
    middle, last = np.where(t < 0, log_rest, shared), np.where(t < 0, shared, log_rest)
    rooted = np.logaddexp(2 * middle, np.log(4) + lead + last) / 2
    u = (np.logaddexp(middle, rooted) - np.log(2) - lead) / scale
    mass = np.exp(log_q + log_ndtr(s - u)) - np.exp(x + log_q + log_ndtr(t - u)) - np.exp(log_rest + log_ndtr(-u))
    return np.where(q > 0, np.maximum(mass, 0), 0)


def _log_expm1(x: Numbers) -> Result:
    """log(e^x - 1), -inf at 0."""
    with np.errstate(divide="ignore"):
        return x + np.log(-np.expm1(-np.asarray(x, np.float64)))

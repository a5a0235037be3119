"""Mean and second moment of the server's gradient estimates (eqs. 9, 10), for aligned users and given gradients.

Both estimates are biased towards users that take part more often: the mean is sum_k w_k g_k, and w_k = 1/K only if all
users have the same p.
"""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless.participation import inverse_moments, others, positive_moments, users
from fedjax_priv.theory.wireless.rounds import Checked, Round, checked


class EstimateMoments(NamedTuple):
    """Moments over participation, privacy noise and receiver noise."""

    mean: np.ndarray  # [d]
    second: Result  # E||estimate||^2


def estimate_weights_unknown(num_users: Numbers, participation: Numbers) -> np.ndarray:
    """`[K]`, w_k = p_k/m, if R is unknown.

    Args:
      num_users: K.
      participation: p, or `[K]`, one p_k per user; not all 0.

    Examples:
      >>> print(estimate_weights_unknown(2, np.array([0.9, 0.1])))
      [0.9 0.1]
    """
    return users(num_users, participation) / positive_moments(num_users, participation).mean


def estimate_weights_known(num_users: Numbers, participation: Numbers) -> np.ndarray:
    """`[K]`, w_k = p_k E[1/(1 + R_{-k})]/zeta, if R is known; R_{-k} counts the other participants. In O(K^3).

    Arguments and errors are those of `estimate_weights_unknown`.

    Examples:
      >>> print(estimate_weights_known(2, np.array([0.9, 0.1])).round(3))
      [0.94 0.06]
    """
    p, zeta = users(num_users, participation), positive_moments(num_users, participation).any
    inverse = 1 / np.arange(1.0, p.size + 2)
    return np.array([chance * (others(p, user) @ inverse) for user, chance in enumerate(p)]) / zeta


def estimate_moments_unknown(setting: Round, gradients: np.ndarray) -> EstimateMoments:
    """||sum_k w_k g_k||^2 + [sum_k p_k (1-p_k) ||g_k||^2 + d (sum_k p_k sigma_k^2 + N0)]/m^2, R unknown (eq. 10).

    Args:
      setting: some user must have p > 0.
      gradients: `[K, d]`, clipped.

    Examples:
      >>> setting = Round(num_users=2, participation=0.5, clip=1.0, noise_variance=0.0)
      >>> gradients = np.array([[1.0, 0.0], [0.0, 1.0]])
      >>> moments = estimate_moments_unknown(setting, gradients)
      >>> print(moments.mean, moments.second)
      [0.5 0.5] 1.0
    """
    one, d = _given(setting, gradients)
    p, m = one.participation, positive_moments(one.num_users, one.participation).mean
    mean = p @ gradients / m
    privacy = (p * one.noise_variance).sum()
    spread = (p * (1 - p)) @ np.square(gradients).sum(1)
    noise = d * (privacy + one.receiver_noise)
    return EstimateMoments(mean, mean @ mean + (spread + noise) / m**2)


def estimate_moments_known(setting: Round, gradients: np.ndarray) -> EstimateMoments:
    """`zeta^-2 sum_{r>=1} P[R=r] [||g||^2 + V (K-r)/(r (K-1)) + d sigma^2/r + d N0/r^2]`, R known (eq. 9).

    g is the mean of g_k, and V the mean of ||g_k - g||^2.

    Args:
      setting: with one p in (0, 1] and one sigma^2 for all users.
      gradients: `[K, d]`, clipped.

    Examples:
      >>> setting = Round(num_users=2, participation=0.5, clip=1.0, noise_variance=0.0)
      >>> gradients = np.array([[1.0, 0.0], [0.0, 1.0]])
      >>> moments = estimate_moments_known(setting, gradients)
      >>> print(moments.mean.round(3), moments.second.round(3))
      [0.5 0.5] 1.111
    """
    for name in ("participation", "noise_variance"):
        if np.ndim(value := getattr(_validate.setting(Round, setting=setting), name)):
            _validate.fail(name, value, "one number for all users")
    one, d = _given(setting, gradients)
    zeta = positive_moments(one.num_users, setting.participation).any
    inverse = inverse_moments(one.num_users, setting.participation)
    mean = np.mean(gradients, axis=0)
    variance = np.square(gradients - mean).sum(1).mean()
    sampled = variance * (one.num_users * inverse.first - zeta) / max(one.num_users - 1, 1)
    noise = d * (one.noise_variance * inverse.first + one.receiver_noise * inverse.second)
    return EstimateMoments(mean, (zeta * (mean @ mean) + sampled + noise) / zeta**2)


def _given(setting: Round, gradients: np.ndarray) -> tuple[Checked, int]:
    """The checked round, and d."""
    one, shape = checked(setting), np.shape(gradients)
    if len(shape) != 2 or shape[0] != one.num_users:
        _validate.fail("gradients", shape, f"of shape [K, d] for K = num_users = {one.num_users}")
    return one, shape[1]

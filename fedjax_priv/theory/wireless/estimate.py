"""Mean and second moment of the server's estimate of the gradient (eqs. 9, 10), users aligned and gradients given.

Both are biased towards users that take part more often: the mean is sum_k w_k g_k, and w_k = 1/K only for one p.
"""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless.participation import inverse_moments, others, positive_moments, users


class EstimateMoments(NamedTuple):
    """Over users that take part, privacy and receiver noise."""

    mean: np.ndarray  # [d]
    second: Result  # E||estimate||^2


def estimate_weights_unknown(num_users: Numbers, participation: Numbers) -> np.ndarray:
    """`[K]`, w_k = p_k/m, where R is unknown.

    Args:
      num_users: K.
      participation: p, or `[K]`, one p_k per user; not all 0.

    Raises:
      ValueError: an argument outside its range.
    """
    return users(num_users, participation) / positive_moments(num_users, participation).mean


def estimate_weights_known(num_users: Numbers, participation: Numbers) -> np.ndarray:
    """`[K]`, w_k = p_k E[1/(1 + R_{-k})]/zeta, where R is known and R_{-k} is the others' count; in O(K^3).

    Arguments and errors are those of `estimate_weights_unknown`.
    """
    p, zeta = users(num_users, participation), positive_moments(num_users, participation).any
    inverse = 1 / np.arange(1.0, p.size + 2)
    return np.array([chance * (others(p, user) @ inverse) for user, chance in enumerate(p)]) / zeta


def estimate_moments_unknown(
    gradients: np.ndarray, participation: Numbers, noise_variance: Numbers, receiver_noise: Numbers
) -> EstimateMoments:
    """||sum_k w_k g_k||^2 + [sum_k p_k (1-p_k) ||g_k||^2 + d (sum_k p_k sigma_k^2 + N0)]/m^2, R unknown (eq. 10).

    Args:
      gradients: `[K, d]`, clipped.
      participation: p, or `[K]`, one p_k per user; not all 0.
      noise_variance: sigma^2, or `[K]`, one per user.
      receiver_noise: N0.

    Raises:
      ValueError: an argument outside its range.
    """
    size, d = np.shape(gradients)
    p, m = users(size, participation), positive_moments(size, participation).mean
    mean = p @ gradients / m
    privacy = (p * _validate.real("[0, inf)", noise_variance=noise_variance)).sum()
    spread = (p * (1 - p)) @ np.square(gradients).sum(1)
    noise = d * (privacy + _validate.real("[0, inf)", receiver_noise=receiver_noise))
    return EstimateMoments(mean, mean @ mean + (spread + noise) / m**2)


def estimate_moments_known(
    gradients: np.ndarray, participation: Numbers, noise_variance: Numbers, receiver_noise: Numbers
) -> EstimateMoments:
    """`zeta^-2 sum_{r>=1} P[R=r] [||g||^2 + V (K-r)/(r (K-1)) + d sigma^2/r + d N0/r^2]`, R known (eq. 9).

    g is the mean of g_k and V that of ||g_k - g||^2.

    Args:
      gradients: `[K, d]`, clipped.
      participation: p, one for all users, in (0, 1].
      noise_variance: sigma^2, one for all users.
      receiver_noise: N0.

    Raises:
      ValueError: an argument outside its range.
    """
    size, d = np.shape(gradients)
    if np.ndim(participation):
        _validate.fail("participation", participation, "one number for all users")
    p = _validate.real("(0, 1]", participation=participation)
    zeta, inverse = positive_moments(size, p).any, inverse_moments(size, p)
    mean = np.mean(gradients, axis=0)
    variance = np.square(gradients - mean).sum(1).mean()
    sampled = variance * (size * inverse.first - zeta) / max(size - 1, 1)
    noise = d * (
        _validate.real("[0, inf)", noise_variance=noise_variance) * inverse.first
        + _validate.real("[0, inf)", receiver_noise=receiver_noise) * inverse.second
    )
    return EstimateMoments(mean, (zeta * (mean @ mean) + sampled + noise) / zeta**2)

"""Theorem 1, Corollary 1 and Lemma 1: what the whole view tells about one user, in a round, by the paper.

Below, beta K = sqrt(0.5 K log(2/delta')) is how far R strays from its mean m, and
c = (2L/sigma_min) sqrt(2 log(1.25/delta_l)). Theorem 1 is about replacement: for removal, the paper's own relation, it
is false (see `removal_counterexample`). It is proved for uniform participation and one sigma only.
"""

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless.amplification import amplified
from fedjax_priv.theory.wireless.participation import users
from fedjax_priv.theory.wireless.shared import deviation, exact_exponent, exponent_of, gaussian_sensitivity, window


def central_epsilon(
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    delta_local: Numbers,
    delta_prime: Numbers,
) -> Result:
    """Theorem 1 (eq. 13), Corollary 1 (eq. 14): log[1 + max p/(1-delta') (exp(c/sqrt(m - beta K)) - 1)].

    At `optimal_participation` below 1 it is Lemma 1's (eq. 16), with exponent c/(0.5 K log(2/delta'))^(1/4).

    Args:
      num_users: K.
      participation: p, or `[K]`, one p_k per user; in [0, 1].
      clip: L, the norm that gradients are clipped to.
      noise_variance: sigma^2, or one per user, of which the smallest counts.
      delta_local: delta_l, in (0, 1].
      delta_prime: delta' in (2 exp(-2 m^2/K), 1), the same as m > beta K.

    Raises:
      ValueError: an argument outside its range; the bound does not exist outside that of delta'.
    """
    sensitivity = _sensitivity(num_users, participation, clip, noise_variance, delta_prime, 0.0)
    return amplified(exponent_of(delta_local, sensitivity), _factor(num_users, participation, delta_prime))


def central_epsilon_analytic(
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    delta_local: Numbers,
    delta_prime: Numbers,
    receiver_noise: Numbers = 0.0,
) -> Result:
    """Theorem 1 with the exact Gaussian mechanism for the 1.25 formula, at noise (m - beta K) sigma^2 + N0.

    Arguments and errors are those of `central_epsilon`; `receiver_noise` is N0.
    """
    sensitivity = _sensitivity(num_users, participation, clip, noise_variance, delta_prime, receiver_noise)
    return amplified(exact_exponent(delta_local, sensitivity), _factor(num_users, participation, delta_prime))


def central_epsilon_sharp(
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    delta_local: Numbers,
    delta_prime: Numbers,
    receiver_noise: Numbers = 0.0,
) -> Result:
    """What is true in Theorem 1 at its sharpest: replacement, one p and one sigma^2, delta = delta' + p delta_l.

    The largest log(1 + (r/K) (exp(eps_r) - 1)) over counts |r - m| < beta K, r >= 1, where eps_r is that of the exact
    Gaussian mechanism at delta_l and noise r sigma^2 + N0. Arguments and errors are those of `central_epsilon`;
    `participation` and `noise_variance` are numbers and `receiver_noise` is N0.
    """
    for name, value in (("participation", participation), ("noise_variance", noise_variance)):
        if np.ndim(value):
            _validate.fail(name, value, "a number, the same for all users")
    m, width = window(num_users, participation, delta_prime)
    r = np.arange(1, int(num_users) + 1)
    r = r[np.abs(r - m) < width]
    sensitivity = gaussian_sensitivity(clip, noise_variance, r, receiver_noise)
    return np.max(amplified(exact_exponent(delta_local, sensitivity), r / num_users), initial=0.0)


def central_epsilon_printed(
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    delta_local: Numbers,
    delta_prime: Numbers,
) -> Result:
    """log(2 max p/(1-delta')) + c/sqrt(m - beta K), which Tables II(a) and III(a) print in place of eq. 13.

    Weaker than it wherever max p (e^x + 1) >= 1 - delta' for the exponent x. Arguments and errors are those of
    `central_epsilon`.
    """
    sensitivity = _sensitivity(num_users, participation, clip, noise_variance, delta_prime, 0.0)
    factor = _factor(num_users, participation, delta_prime)
    return np.log(2 * factor) + exponent_of(delta_local, sensitivity)


def central_delta(num_users: Numbers, participation: Numbers, delta_local: Numbers, delta_prime: Numbers) -> Result:
    """Theorem 1's delta' + max p delta_l/(1-delta'); 1 or more says nothing.

    Arguments and errors are those of `central_epsilon`.
    """
    window(num_users, participation, delta_prime)
    delta_l = _validate.real("(0, 1]", delta_local=delta_local)
    return np.asarray(delta_prime, np.float64) + _factor(num_users, participation, delta_prime) * delta_l


def optimal_participation(num_users: Numbers, delta_prime: Numbers) -> Result:
    """Lemma 1 (eq. 15): p* = min(1, 2 beta), which minimises eq. 14 linearised in its exponent.

    The minimiser of eq. 14 itself is larger, and 1 for large c.

    Args:
      num_users: K.
      delta_prime: delta', in (0, 1).

    Raises:
      ValueError: an argument outside its range.
    """
    return np.minimum(1, 2 * deviation(num_users, delta_prime) / np.asarray(num_users))


def _sensitivity(
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    delta_prime: Numbers,
    receiver_noise: Numbers,
) -> Result:
    m, width = window(num_users, participation, delta_prime)
    return gaussian_sensitivity(clip, noise_variance, m - width, receiver_noise)


def _factor(num_users: Numbers, participation: Numbers, delta_prime: Numbers) -> Result:
    return users(num_users, participation).max() / (1 - np.asarray(delta_prime))

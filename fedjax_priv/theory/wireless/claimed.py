"""The paper's claims about one round: Theorem 1 on the server's whole view, Lemma 2 on the received signal alone.

Every figure is for the user who takes part most often. Below, m is the mean number of participants R;
|R - m| <= beta K = sqrt(0.5 K log(2/delta')) with probability at least 1 - delta'; and
c = (2L/sigma_min) sqrt(2 log(1.25/delta_l)), with delta_l in (0, 1] of one user's Gaussian noise.

Theorem 1 holds for replacement with one p and one sigma. For removal, the paper's own relation, it is false
(`removal_counterexample`). It needs delta' in (2 exp(-2 m^2/K), 1), which is equivalent to m > beta K; outside that
range its functions raise ValueError. Unless stated otherwise, they ignore the receiver's noise N0.
"""

from collections.abc import Callable

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._mixtures import amplified
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless import noise
from fedjax_priv.theory.wireless.participation import deviation, window
from fedjax_priv.theory.wireless.rounds import Checked, Round, checked, without_receiver


def central_epsilon(setting: Round, delta_local: Numbers, delta_prime: Numbers) -> Result:
    """Which eps has a round against the server? Theorem 1 (eq. 13) and Corollary 1 (eq. 14).

    log[1 + max p/(1-delta') (exp(c/sqrt(m - beta K)) - 1)]. At `optimal_participation`, if below 1, it is Lemma 1's
    eps (eq. 16), with exponent c/(0.5 K log(2/delta'))^(1/4).

    Examples:
      >>> setting = Round(num_users=1000, participation=0.1, clip=1.0, noise_variance=1.0)
      >>> print(central_epsilon(setting, delta_local=1e-5, delta_prime=1e-4).round(3))
      0.401
    """
    exponent, factor = _claim(without_receiver(setting), delta_local, delta_prime, noise.classical)
    return amplified(exponent, factor)


def central_epsilon_analytic(setting: Round, delta_local: Numbers, delta_prime: Numbers) -> Result:
    """Theorem 1 with the exact Gaussian mechanism instead of the 1.25 formula, at noise (m - beta K) sigma^2 + N0.

    Examples:
      >>> setting = Round(num_users=1000, participation=0.1, clip=1.0, noise_variance=1.0)
      >>> print(central_epsilon_analytic(setting, delta_local=1e-5, delta_prime=1e-4).round(3))
      0.271
    """
    return amplified(*_claim(setting, delta_local, delta_prime, noise.exact))


def central_epsilon_sharp(setting: Round, delta_local: Numbers, delta_prime: Numbers) -> Result:
    """The sharpest true form of Theorem 1: replacement, one p and one sigma^2, delta = delta' + p delta_l.

    The largest log(1 + (r/K) (exp(eps_r) - 1)) over counts |r - m| < beta K, r >= 1. eps_r is the eps of the exact
    Gaussian mechanism at delta_l and noise r sigma^2 + N0.

    Raises:
      ValueError: `participation` or `noise_variance` differs between users.

    Examples:
      >>> setting = Round(num_users=1000, participation=0.1, clip=1.0, noise_variance=1.0)
      >>> print(central_epsilon_sharp(setting, delta_local=1e-5, delta_prime=1e-4).round(3))
      0.116
    """
    _validate.setting(Round, setting=setting)
    for name, value in (("participation", setting.participation), ("noise_variance", setting.noise_variance)):
        if np.ndim(value):
            _validate.fail(name, value, "a number, the same for all users")
    one = checked(setting)
    m, width = window(one.num_users, one.participation, delta_prime)
    r = np.arange(1, one.num_users + 1)
    r = r[np.abs(r - m) < width]
    exponent = noise.exact(delta_local, noise.sensitivity(one, r))
    return np.max(amplified(exponent, r / one.num_users), initial=0.0)


def central_epsilon_printed(setting: Round, delta_local: Numbers, delta_prime: Numbers) -> Result:
    """The eps that Tables II(a) and III(a) show instead of eq. 13: log(2 max p/(1-delta')) + c/sqrt(m - beta K).

    With x the exponent, it is weaker than eq. 13 if max p (e^x + 1) >= 1 - delta'.

    Examples:
      >>> setting = Round(num_users=1000, participation=0.1, clip=1.0, noise_variance=1.0)
      >>> print(central_epsilon_printed(setting, delta_local=1e-5, delta_prime=1e-4).round(3))
      0.171
    """
    exponent, factor = _claim(without_receiver(setting), delta_local, delta_prime, noise.classical)
    return np.log(2 * factor) + exponent


def central_delta(setting: Round, delta_local: Numbers, delta_prime: Numbers) -> Result:
    """The delta of `central_epsilon`: delta' + max p delta_l/(1-delta'); 1 or more says nothing.

    Examples:
      >>> setting = Round(num_users=1000, participation=0.1, clip=1.0, noise_variance=1.0)
      >>> print(f"{central_delta(setting, delta_local=1e-5, delta_prime=1e-4):.2e}")
      1.01e-04
    """
    one = checked(setting)
    window(one.num_users, one.participation, delta_prime)
    delta_l = _validate.real("(0, 1]", delta_local=delta_local)
    return np.asarray(delta_prime, np.float64) + _factor(one, delta_prime) * delta_l


def optimal_participation(num_users: Numbers, delta_prime: Numbers) -> Result:
    """At which p is Theorem 1's eps least? Lemma 1 (eq. 15) says p* = min(1, 2 beta).

    This p minimises eq. 14 linearised in its exponent; the minimiser of eq. 14 itself is larger, and 1 for large c.

    Args:
      num_users: K.
      delta_prime: delta', in (0, 1).

    Examples:
      >>> print(optimal_participation(1000, 1e-4).round(3))
      0.141
    """
    return np.minimum(1, 2 * deviation(num_users, delta_prime) / np.asarray(num_users))


def local_epsilon(setting: Round, delta_local: Numbers, delta_prime: Numbers) -> Result:
    """Which eps has the received signal y_t for the data of one user? Lemma 2 (eq. 17).

    (2L/sqrt((1+kappa) sigma_min^2 + N0)) sqrt(2 log(1.25/delta_l)). kappa is the sum of the other users' p minus
    beta K: nearly always, at least kappa others send, and their noise protects the user too. The lemma ignores N0; the
    paper's tables count it.

    Raises:
      ValueError: kappa <= -1 at this delta'.

    Examples:
      >>> setting = Round(num_users=1000, participation=0.1, clip=1.0, noise_variance=1.0)
      >>> print(local_epsilon(setting, delta_local=1e-5, delta_prime=1e-4).round(2))
      1.75
    """
    return noise.classical(delta_local, _local_sensitivity(setting, delta_prime))


def local_epsilon_analytic(setting: Round, delta_local: Numbers, delta_prime: Numbers) -> Result:
    """Lemma 2 with the exact Gaussian mechanism instead of the 1.25 formula: then it is a theorem.

    Examples:
      >>> setting = Round(num_users=1000, participation=0.1, clip=1.0, noise_variance=1.0)
      >>> print(local_epsilon_analytic(setting, delta_local=1e-5, delta_prime=1e-4).round(2))
      1.39
    """
    return noise.exact(delta_local, _local_sensitivity(setting, delta_prime))


def local_delta(setting: Round, delta_local: Numbers, delta_prime: Numbers) -> Result:
    """The delta of `local_epsilon`: max p (delta_l + delta').

    Examples:
      >>> setting = Round(num_users=1000, participation=0.1, clip=1.0, noise_variance=1.0)
      >>> print(f"{local_delta(setting, delta_local=1e-5, delta_prime=1e-4):.1e}")
      1.1e-05
    """
    failure = _validate.real("(0, 1]", delta_local=delta_local) + _validate.real("(0, 1)", delta_prime=delta_prime)
    return checked(setting).participation.max() * failure


def _claim(setting: Round, delta_local: Numbers, delta_prime: Numbers, exponent: Callable) -> tuple[Result, Result]:
    """Theorem 1's exponent and the factor of its amplification."""
    one = checked(setting)
    m, width = window(one.num_users, one.participation, delta_prime)
    return exponent(delta_local, noise.sensitivity(one, m - width)), _factor(one, delta_prime)


def _factor(one: Checked, delta_prime: Numbers) -> Result:
    return one.participation.max() / (1 - np.asarray(delta_prime))


def _local_sensitivity(setting: Round, delta_prime: Numbers) -> Result:
    one = checked(setting)
    p = one.participation
    senders = 1 + p.sum() - p.max() - deviation(one.num_users, delta_prime)
    if (senders <= 0).any():
        allowed = f"such that kappa = sum of the others' participation - beta K > -1, not {senders - 1}"
        _validate.fail("delta_prime", delta_prime, allowed)
    return noise.sensitivity(one, senders)

"""A counterexample to Theorem 1 for removal: an absent user adds no noise, which shows in the received power."""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtr, chdtrc, logsumexp

from fedjax_priv.theory import _roots, _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless.claimed import central_delta, central_epsilon
from fedjax_priv.theory.wireless.participation import count_law
from fedjax_priv.theory.wireless.rounds import Round


class Counterexample(NamedTuple):
    """Theorem 1's claim, and the true delta."""

    epsilon: Result  # eq. 13
    claimed: Result  # delta of the claim
    exact: Result  # the true delta at this eps, the larger of the two orders


def removal_counterexample(
    setting: Round, num_params: Numbers, delta_local: Numbers, delta_prime: Numbers
) -> Counterexample:
    """The exact delta at the eps that eq. 13 claims, if one user is there or not, all gradients are 0 and R is secret.

    The received signal is then a mixture of N(0, (r sigma^2 + N0) I_d) over r ~ Bin(K, p) or Bin(K-1, p). Its power is
    a sufficient statistic, and the ratio of the two densities grows with it. So delta is a difference of tails of
    chi-square mixtures.

    Args:
      setting: at least 2 users with one p in (0, 1), and N0 > 0. The claim depends on L, the true delta does not.
      num_params: d.
      delta_local: delta_l of the claim.
      delta_prime: delta' of the claim.

    Raises:
      ValueError: Theorem 1 claims nothing at this delta', or an argument is outside its range.

    Examples:
      >>> setting = Round(num_users=200, participation=0.5, clip=0.01, noise_variance=1.0, receiver_noise=1.0)
      >>> found = removal_counterexample(setting, num_params=7850, delta_local=1e-5, delta_prime=1e-4)
      >>> print(f"{found.claimed:.1e} {found.exact:.2f}")
      1.1e-04 0.02
    """
    size = _validate.length(at_least=2, num_users=_validate.setting(Round, setting=setting).num_users)
    p = _validate.real("(0, 1)", participation=setting.participation)
    noise = _validate.real("(0, inf)", receiver_noise=setting.receiver_noise)
    epsilon = central_epsilon(setting, delta_local, delta_prime)
    scale = np.arange(size + 1) * np.asarray(setting.noise_variance) + noise
    there, gone = count_law(size, p), np.append(count_law(size - 1, p), 0)
    exact = _power_delta(epsilon, scale, there, gone, _validate.integer(num_params=num_params))
    return Counterexample(epsilon, central_delta(setting, delta_local, delta_prime), exact)


def _power_delta(epsilon: Numbers, scale: np.ndarray, there: np.ndarray, gone: np.ndarray, d: np.ndarray) -> Result:
    """The larger of P[power > x] - e^eps P'[power > x] and P'[power < y] - e^eps P[power < y], at the best x and y."""

    def log_density(power: Numbers, law: np.ndarray) -> Result:  # without a factor that both have
        return logsumexp(-d / 2 * np.log(scale) - np.asarray(power)[..., None] / (2 * scale), b=law, axis=-1)

    high = (4 * d + 1000) * scale[-1]  # hardly ever reached
    gap = lambda power: log_density(power, gone) - log_density(power, there)
    above, below = _roots.least(gap, -epsilon, high), _roots.least(gap, epsilon, high)
    removed = (there - np.exp(epsilon) * gone) @ chdtrc(d, above / scale)
    added = (gone - np.exp(epsilon) * there) @ chdtr(d, below / scale)
    return np.maximum(removed, added)

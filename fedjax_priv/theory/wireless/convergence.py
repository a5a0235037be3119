"""Theorems 2 and 3 (eqs. 21-25, 47): how fast wireless FedSGD converges with and without knowing R.

For plain SGD at eta_t = 1/(lambda t) on a strongly convex and smooth loss and iid data,
E F(w_T) - F* <= (2 mu/(lambda^2 T)) mean_t G_t^2 where G_t^2 >= E||estimate||^2. Bias by clipping is not covered.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless.claimed import optimal_participation
from fedjax_priv.theory.wireless.participation import (
    InverseMoments,
    inverse_moments,
    inverse_moments_taylor,
    positive_moments,
)
from fedjax_priv.theory.wireless.rounds import Checked, Round, checked


class Problem(NamedTuple):
    """The loss."""

    smoothness: Numbers  # mu >= lambda
    convexity: Numbers  # lambda > 0
    num_params: Numbers  # d


def convergence_bound(problem: Problem, moments: Numbers, iterations: Numbers) -> Result:
    """How far is the last model's expected loss from the optimum? At most (2 mu/(lambda^2 T)) mean_t G_t^2.

    Args:
      moments: G_t^2, the same in all iterations, or `[T]`.
      iterations: T.

    Examples:
      >>> problem = Problem(smoothness=1.0, convexity=0.1, num_params=50)
      >>> print(convergence_bound(problem, moments=4.0, iterations=1000).round(3))
      0.8
    """
    each = _validate.real("[0, inf)", moments=moments)
    if each.ndim and (np.ndim(iterations) or each.shape != (iterations,)):
        raise ValueError(f"moments must be a number, or [T], T = iterations = {iterations}, got shape {each.shape}")
    return _bound(problem, each.mean(), iterations)


def _bound(problem: Problem, mean: Result, iterations: Numbers) -> Result:
    convexity = _validate.real("(0, inf)", convexity=_validate.setting(Problem, problem=problem).convexity)
    smoothness = _validate.real("(0, inf)", smoothness=problem.smoothness)
    if (smoothness < convexity).any():
        _validate.fail("smoothness", problem.smoothness, f"at least convexity = {problem.convexity}")
    return 2 * smoothness / convexity**2 * mean / _validate.integer(iterations=iterations)


def convergence_bound_unknown(problem: Problem, setting: Round, iterations: Numbers) -> Result:
    """Theorem 2 (eq. 21), R unknown: `convergence_bound` of `moment_unknown`, the same in all iterations.

    Examples:
      >>> problem = Problem(smoothness=1.0, convexity=0.1, num_params=50)
      >>> setting = Round(num_users=200, participation=0.1, clip=1.0, noise_variance=0.1, receiver_noise=1.0)
      >>> print(convergence_bound_unknown(problem, setting, iterations=1000).round(3))
      0.284
    """
    return convergence_bound(problem, moment_unknown(problem, setting), iterations)


def convergence_bound_known(problem: Problem, setting: Round, iterations: Numbers) -> Result:
    """Theorem 3 (eq. 23), R known: `convergence_bound` of `moment_known`, the same in all iterations.

    Examples:
      >>> problem = Problem(smoothness=1.0, convexity=0.1, num_params=50)
      >>> setting = Round(num_users=200, participation=0.1, clip=1.0, noise_variance=0.1, receiver_noise=1.0)
      >>> print(convergence_bound_known(problem, setting, iterations=1000).round(3))
      0.282
    """
    return convergence_bound(problem, moment_known(problem, setting), iterations)


def convergence_bound_optimal(problem: Problem, setting: Round, delta_prime: Numbers, iterations: Numbers) -> Result:
    """Corollary 2 (eq. 22), R unknown, at p = p* < 1; `setting.participation` is not used. It agrees with Theorem 2.

    G^2 = L^2 (a (sqrt K - 1/sqrt K) + 1)/(a sqrt K) + (d/(a^2 K)) (a sqrt K max sigma^2 + N0), where
    a = sqrt(2 log(2/delta')).

    Examples:
      >>> problem = Problem(smoothness=1.0, convexity=0.1, num_params=50)
      >>> setting = Round(num_users=200, participation=1.0, clip=1.0, noise_variance=0.1, receiver_noise=1.0)
      >>> print(convergence_bound_optimal(problem, setting, delta_prime=1e-4, iterations=1000).round(3))
      0.221
    """
    if (optimal_participation(_validate.setting(Round, setting=setting).num_users, delta_prime) == 1).any():
        _validate.fail("num_users", setting.num_users, "above 2 log(2/delta'), for p* < 1")
    one, d, privacy = _constants(problem, setting)
    a, root = np.sqrt(2 * np.log(2 / np.asarray(delta_prime))), np.sqrt(one.num_users)
    gradient = one.clip**2 * (a * (root - 1 / root) + 1) / (a * root)
    noise = d / (a * root) ** 2 * (a * root * privacy + one.receiver_noise)
    return _bound(problem, gradient + noise, iterations)


def moment_unknown(problem: Problem, setting: Round) -> Result:
    """G^2 = L^2 (m^2 + v)/m^2 + (d/m^2) (max sigma^2 m + N0) of eq. 21; ValueError if nobody ever takes part.

    Examples:
      >>> problem = Problem(smoothness=1.0, convexity=0.1, num_params=50)
      >>> setting = Round(num_users=200, participation=0.1, clip=1.0, noise_variance=0.1, receiver_noise=1.0)
      >>> print(moment_unknown(problem, setting).round(3))
      1.42
    """
    one, d, privacy = _constants(problem, setting)
    m, v, _ = positive_moments(setting.num_users, setting.participation)
    return one.clip**2 * (m**2 + v) / m**2 + d / m**2 * (privacy * m + one.receiver_noise)


def moment_known(problem: Problem, setting: Round) -> Result:
    """G^2 = L^2/zeta + (d/zeta^2) (max sigma^2 E[1/R] + N0 E[1/R^2]) of eq. 23, with exact moments.

    Examples:
      >>> problem = Problem(smoothness=1.0, convexity=0.1, num_params=50)
      >>> setting = Round(num_users=200, participation=0.1, clip=1.0, noise_variance=0.1, receiver_noise=1.0)
      >>> print(moment_known(problem, setting).round(3))
      1.408
    """
    return _known(problem, setting, inverse_moments)


def moment_known_taylor(problem: Problem, setting: Round) -> Result:
    """`moment_known` with the paper's approximate moments (eqs. 24, 25).

    Examples:
      >>> problem = Problem(smoothness=1.0, convexity=0.1, num_params=50)
      >>> setting = Round(num_users=200, participation=0.1, clip=1.0, noise_variance=0.1, receiver_noise=1.0)
      >>> print(moment_known_taylor(problem, setting).round(3))
      1.403
    """
    return _known(problem, setting, inverse_moments_taylor)


def _known(problem: Problem, setting: Round, moments: Callable[[Numbers, Numbers], InverseMoments]) -> Result:
    one, d, privacy = _constants(problem, setting)
    zeta = positive_moments(setting.num_users, setting.participation).any
    inverse = moments(setting.num_users, setting.participation)
    return one.clip**2 / zeta + d / zeta**2 * (privacy * inverse.first + one.receiver_noise * inverse.second)


def _constants(problem: Problem, setting: Round) -> tuple[Checked, Result, Result]:
    """The checked round, d and the largest sigma^2."""
    one, d = checked(setting), _validate.setting(Problem, problem=problem).num_params
    return one, _validate.integer(num_params=d), one.noise_variance.max()

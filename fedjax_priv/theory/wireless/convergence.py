"""Theorems 2 and 3: plain SGD at eta_t = 1/(lambda t) on a strongly convex and smooth loss and iid data.

E F(w_T) - F* <= (2 mu/(lambda^2 T)) mean_t G_t^2 where G_t^2 >= E||estimate||^2 (eq. 47). Bias by clipping is not
covered.
"""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless.central import optimal_participation
from fedjax_priv.theory.wireless.participation import (
    InverseMoments,
    inverse_moments,
    inverse_moments_taylor,
    positive_moments,
)


class Problem(NamedTuple):
    """The loss and what its gradients are clipped to."""

    smoothness: Numbers  # mu
    convexity: Numbers  # lambda <= mu
    clip: Numbers  # L
    num_params: Numbers  # d


class Noise(NamedTuple):
    """Variances per parameter."""

    privacy: Numbers  # sigma^2, or one per user, of which the largest counts
    receiver: Numbers  # N0


def convergence_bound(problem: Problem, moments: Numbers, iterations: Numbers) -> Result:
    """(2 mu/(lambda^2 T)) mean_t G_t^2.

    Args:
      problem: its constants.
      moments: G_t^2, the same in all iterations, or `[T]`.
      iterations: T.

    Raises:
      ValueError: a constant or an argument outside its range.
    """
    convexity = _validate.real("(0, inf)", convexity=problem.convexity)
    smoothness = _validate.real("(0, inf)", smoothness=problem.smoothness)
    if (smoothness < convexity).any():
        _validate.fail("smoothness", problem.smoothness, f"at least convexity = {problem.convexity}")
    mean = _validate.real("[0, inf)", moments=moments).mean()
    return 2 * smoothness / convexity**2 * mean / _validate.integer(iterations=iterations)


def convergence_bound_unknown(
    problem: Problem, noise: Noise, *, num_users: Numbers, participation: Numbers, iterations: Numbers
) -> Result:
    """Theorem 2 (eq. 21), R unknown: `convergence_bound` of `moment_unknown`, the same in all iterations."""
    moment = moment_unknown(problem, noise, num_users=num_users, participation=participation)
    return convergence_bound(problem, moment, iterations)


def convergence_bound_known(
    problem: Problem, noise: Noise, *, num_users: Numbers, participation: Numbers, iterations: Numbers
) -> Result:
    """Theorem 3 (eq. 23), R known: `convergence_bound` of `moment_known`, the same in all iterations."""
    moment = moment_known(problem, noise, num_users=num_users, participation=participation)
    return convergence_bound(problem, moment, iterations)


def convergence_bound_optimal(
    problem: Problem, noise: Noise, *, num_users: Numbers, delta_prime: Numbers, iterations: Numbers
) -> Result:
    """Corollary 2 (eq. 22), R unknown, at p = p* < 1, which agrees with Theorem 2.

    G^2 = L^2 (a (sqrt K - 1/sqrt K) + 1)/(a sqrt K) + (d/(a^2 K)) (a sqrt K max sigma^2 + N0), where
    a = sqrt(2 log(2/delta')). Arguments and errors are those of `moment_unknown`; `delta_prime` is delta'.
    """
    if (optimal_participation(num_users, delta_prime) == 1).any():
        _validate.fail("num_users", num_users, "above 2 log(2/delta'), for p* < 1")
    clip, d, privacy, receiver = _constants(problem, noise)
    a, root = np.sqrt(2 * np.log(2 / np.asarray(delta_prime))), np.sqrt(num_users)
    gradient = clip**2 * (a * (root - 1 / root) + 1) / (a * root)
    return convergence_bound(problem, gradient + d / (a * root) ** 2 * (a * root * privacy + receiver), iterations)


def moment_unknown(problem: Problem, noise: Noise, *, num_users: Numbers, participation: Numbers) -> Result:
    """G^2 = L^2 (m^2 + v)/m^2 + (d/m^2) (max sigma^2 m + N0) of eq. 21.

    Args:
      problem: its constants.
      noise: the two variances.
      num_users: K.
      participation: p, or `[K]`, one p_k per user; not all 0.

    Raises:
      ValueError: a constant or an argument outside its range.
    """
    clip, d, privacy, receiver = _constants(problem, noise)
    m, v, _ = positive_moments(num_users, participation)
    return clip**2 * (m**2 + v) / m**2 + d / m**2 * (privacy * m + receiver)


def moment_known(problem: Problem, noise: Noise, *, num_users: Numbers, participation: Numbers) -> Result:
    """G^2 = L^2/zeta + (d/zeta^2) (max sigma^2 E[1/R] + N0 E[1/R^2]) of eq. 23, with exact moments.

    Arguments and errors are those of `moment_unknown`.
    """
    return _known(problem, noise, num_users, participation, inverse_moments(num_users, participation))


def moment_known_taylor(problem: Problem, noise: Noise, *, num_users: Numbers, participation: Numbers) -> Result:
    """`moment_known` with the paper's approximate moments (eqs. 24, 25)."""
    return _known(problem, noise, num_users, participation, inverse_moments_taylor(num_users, participation))


def _known(
    problem: Problem, noise: Noise, num_users: Numbers, participation: Numbers, inverse: InverseMoments
) -> Result:
    clip, d, privacy, receiver = _constants(problem, noise)
    zeta = positive_moments(num_users, participation).any
    return clip**2 / zeta + d / zeta**2 * (privacy * inverse.first + receiver * inverse.second)


def _constants(problem: Problem, noise: Noise) -> tuple[Result, Result, Result, Result]:
    """L, d, the largest sigma^2 and N0."""
    return (
        _validate.real("[0, inf)", clip=problem.clip),
        _validate.integer(num_params=problem.num_params),
        _validate.real("[0, inf)", privacy=noise.privacy).max(),
        _validate.real("[0, inf)", receiver=noise.receiver),
    )

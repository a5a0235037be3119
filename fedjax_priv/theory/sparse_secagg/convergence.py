"""Theorem 4 (eqs. 29-31): the expected loss of the sparsified, quantized average on a strongly convex problem."""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.sparse_secagg.privacy import PAPERS_DROPOUT, THEOREM
from fedjax_priv.theory.sparse_secagg.selection import selection_covariance, selection_probability


class Problem(NamedTuple):
    """Constants of F = sum_i beta_i F_i, every F_i L-smooth and mu-strongly convex."""

    weights: np.ndarray  # [N], beta_i, sum 1
    smoothness: float  # L
    strong_convexity: float  # mu <= L
    gradient_variance: Numbers  # [N] or one for all, sigma_i^2: E||stochastic - full gradient of F_i||^2
    gradient_second_moment: float  # G^2: E||stochastic gradient||^2
    heterogeneity: float  # Gamma = F* - sum_i beta_i F_i*
    initial_distance: float  # ||w_0 - w*||


class ConvergenceBound(NamedTuple):
    """Bounds on E[F(w_J)] - F*."""

    printed: Result  # the paper's, with the factor 2 L of ||w_0 - w*||^2; it can be wrong for E > 8 L / mu
    repaired: Result  # with the factor mu nu / 4 that the proof gives; both are equal at nu = 8 L / mu


def learning_rate(problem: Problem, local_steps: Numbers, step: Numbers) -> Result:
    """The learning rate of the theorem: eta_t = 2 / (mu (nu + t)), nu = max(8 L / mu, E).

    Args:
      local_steps: E, between two aggregations.
      step: t, local steps since the start: the rate decays inside a round too.

    Examples:
      >>> problem = Problem(np.full(100, 0.01), 1.0, 0.1, 1.0, 4.0, heterogeneity=0.1, initial_distance=1.0)
      >>> print(learning_rate(problem, local_steps=5, step=np.array([0, 1000])).round(4))
      [0.25   0.0185]
    """
    _check(problem)
    t = _validate.integer(at_least=0, step=step)
    return 2 / (problem.strong_convexity * (_offset(problem, local_steps) + t))


def convergence_bound(
    problem: Problem,
    *,
    num_params: Numbers,
    alpha: Numbers,
    dropout: Numbers,
    levels: Numbers,
    local_steps: Numbers,
    steps: Numbers,
) -> ConvergenceBound:
    """(2L/mu) / (nu + J) ((B + C) / mu + factor ||w_0 - w*||^2) on E[F(w_J)] - F* (Theorem 4).

    B = sum_i beta_i^2 sigma_i^2 + 6 L Gamma + 8 (E-1)^2 G^2, and
    C = N d (1-theta) p / (4 c^2 eta_J^2) + 4 E^2 G^2 `sampling_variance`. The paper treats C as a constant although
    eta_J falls; so the bound finally grows like nu + J. The error does not: in runs of
    `experiments/sparse_secagg/convergence.py` it settles at a level proportional to 1/c.

    Args:
      problem: its constants; N users.
      num_params: d.
      alpha: the protocol's parameter, in (0, 1].
      dropout: theta, in [0, 1/2), the theorem's condition.
      levels: c, grid points of the quantizer per unit.
      local_steps: E, plain SGD steps with `learning_rate` between two aggregations.
      steps: J, local steps in all, E times the rounds.

    Examples:
      >>> problem = Problem(np.full(100, 0.01), 1.0, 0.1, 1.0, 4.0, heterogeneity=0.1, initial_distance=1.0)
      >>> rates = dict(num_params=1000, alpha=0.5, dropout=0.1, levels=2**16, local_steps=5)
      >>> print(convergence_bound(problem, **rates, steps=10_000).repaired.round(2))
      10.42
    """
    d, c = _validate.integer(num_params=num_params), _validate.real("(0, inf)", levels=levels)
    rate, count = learning_rate(problem, local_steps, steps), len(problem.weights)
    sent = count * d * (1 - _validate.dropout(dropout)) * selection_probability(count, alpha)
    drift = 4 * np.square(local_steps) * problem.gradient_second_moment
    spread = sent / (2 * c * rate) ** 2 + drift * sampling_variance(problem.weights, alpha, dropout)
    noise = _gradient_noise(problem, local_steps) + spread
    mu, nu = problem.strong_convexity, _offset(problem, local_steps)
    bounds = (
        problem.smoothness * rate * (noise / mu + factor * problem.initial_distance**2)
        for factor in (2 * problem.smoothness, mu * nu / 4)
    )
    return ConvergenceBound(*bounds)


def sampling_variance(weights: np.ndarray, alpha: Numbers, dropout: Numbers) -> Result:
    """E||sum_i beta_i (m_i / ((1-theta) p) - 1) y||^2 / ||y||^2; m_i is 1 if i survives and sends a coordinate, else 0.

    sum_i beta_i^2 (1 / ((1-theta) p) - 1) + sum_{j != i} beta_i beta_j a (1-a)^(2N-3) / p^2, the bracket of C.

    Args:
      weights: `[N]`, beta_i.
      alpha: the protocol's parameter, in (0, 1].
      dropout: theta, in [0, 1/2), the theorem's condition.

    Examples:
      >>> print(sampling_variance(np.full(100, 0.01), alpha=0.1, dropout=0.1).round(3))
      0.197
    """
    _check_weights(weights)
    theta = _validate.real(PAPERS_DROPOUT, THEOREM, dropout=dropout)
    p, covariance = selection_probability(len(weights), alpha), selection_covariance(len(weights), alpha)
    squares = np.square(weights).sum()
    return squares * (1 / ((1 - theta) * p) - 1) + (np.sum(weights) ** 2 - squares) * covariance / p**2


def _gradient_noise(problem: Problem, local_steps: Numbers) -> Result:
    """B of Theorem 4."""
    gradients = np.sum(np.square(problem.weights) * problem.gradient_variance)
    drift = 8 * np.square(np.asarray(local_steps) - 1) * problem.gradient_second_moment
    return gradients + 6 * problem.smoothness * problem.heterogeneity + drift


def _offset(problem: Problem, local_steps: Numbers) -> Result:
    """nu."""
    return np.maximum(8 * problem.smoothness / problem.strong_convexity, _validate.integer(local_steps=local_steps))


def _check(problem: Problem) -> None:
    _check_weights(_validate.setting(Problem, problem=problem).weights)
    _validate.real("(0, inf)", smoothness=problem.smoothness)
    _validate.real(f"(0, {problem.smoothness}]", " (smoothness)", strong_convexity=problem.strong_convexity)
    _validate.real("[0, inf)", gradient_variance=problem.gradient_variance)
    if np.shape(problem.gradient_variance) not in ((), np.shape(problem.weights)):
        allowed = f"one number or {len(problem.weights)}, as the weights"
        _validate.fail("gradient_variance", problem.gradient_variance, allowed)
    _validate.real("[0, inf)", gradient_second_moment=problem.gradient_second_moment)
    _validate.real("[0, inf)", heterogeneity=problem.heterogeneity)
    _validate.real("[0, inf)", initial_distance=problem.initial_distance)


def _check_weights(weights: np.ndarray) -> None:
    shares = _validate.real("[0, 1]", weights=weights)
    if shares.ndim != 1 or len(shares) < 2 or abs(shares.sum() - 1) > 1e-6:
        _validate.fail("weights", weights, "two or more fractions whose sum is 1")

"""Theorem 3 and Proposition 3 (local momentum SGD for Theorem 4), each as printed and corrected, and Theorem 4."""

from typing import NamedTuple

import numpy as np
from scipy import special

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.fedrep.lemmas import Defence, Problem, check_inverse, constants, disturbance, total_step


class LocalAlgorithm(NamedTuple):
    """Constants of local training A and its mean step G_A = (w - A(w)) / eta_A."""

    rate: Numbers  # eta_A
    bias: Numbers  # A_1: ||E G_A - grad F_k|| <= A_1
    moment: Numbers  # A_2: E||G_A||^2 <= A_2^2


class Bound(NamedTuple):
    """A bound on mean_t E||grad F(w^t)||^2. If it is at least D^2, it is `vacuous` and says nothing."""

    value: Result
    vacuous: np.bool_ | np.ndarray


class ConvergenceBound(NamedTuple):
    """Theorem 3 as printed, which can be too small if 4 L < S, and with its first term corrected."""

    printed: Bound
    corrected: Bound


class MomentumSGD(NamedTuple):
    """Proposition 3 as printed, with which Theorem 4 is always vacuous, and with A_1 corrected."""

    printed: LocalAlgorithm
    corrected: LocalAlgorithm


def convergence_bound(
    problem: Problem, defence: Defence, *, rate: Numbers, local_steps: Numbers, iterations: Numbers
) -> ConvergenceBound:
    """Theorem 3 (eq. 5), for plain local SGD.

    2 (F(w^0)-F*) / (eta I T) + eta gamma_1 + eta^2 gamma_2 + Delta, where
    gamma_1 = 2 I L [2 (1-1/I) L D + 2 H D S + S^2 + 8 c delta (4H^2+1) S^2], gamma_2 = 8 H^2 I^2 L^2 S^2 and
    Delta = 2 B D + 4 sqrt(2 c delta (4H^2+1)) S D. The proof gives (1-1/I) D S / 2 for the first term of gamma_1.

    Args:
      problem: its constants.
      defence: contraction and robustness.
      rate: eta.
      local_steps: I.
      iterations: T.

    Examples:
      >>> problem = Problem(smoothness=1.0, heterogeneity=0.01, gradient_norm=2.0, gradient_std=0.1, initial_gap=1.0)
      >>> defence = Defence(inverse_contraction=1.5)
      >>> bound = convergence_bound(problem, defence, rate=0.01, local_steps=5, iterations=10_000)
      >>> print(bound.corrected.value.round(3), bound.corrected.vacuous)
      1.987 False
    """
    smoothness, norm, moment, _ = constants(problem)
    steps = _validate.integer(local_steps=local_steps)
    rest = _bound(problem, defence, LocalAlgorithm(total_step(rate, local_steps), 0.0, moment), iterations)
    drifts = (2 * smoothness * norm, norm * moment / 2)
    bounds = (rest + 2 * np.asarray(rate) * (steps - 1) * smoothness * drift for drift in drifts)
    return ConvergenceBound(*(_judged(value, norm) for value in bounds))


def algorithm_convergence_bound(
    problem: Problem, defence: Defence, algorithm: LocalAlgorithm, *, iterations: Numbers
) -> Bound:
    """Theorem 4 (eq. 6), for any local algorithm.

    2 (F(w^0)-F*) / (eta_A T) + eta_A gamma_1 + eta_A^2 gamma_2 + Delta, where
    gamma_1 = 2 A_2^2 L + 4 H A_2 D L + 16 c delta (4H^2+1) A_2^2 L, gamma_2 = 8 H^2 A_2^2 L^2 and
    Delta = 2 A_1 D + 2 B D + 4 sqrt(2 c delta (4H^2+1)) A_2 D. With the corrected `momentum_sgd` at beta = 0 it is the
    corrected Theorem 3.

    Args:
      problem: its constants.
      defence: contraction and robustness.
      algorithm: eta_A, A_1 and A_2.
      iterations: T.

    Examples:
      >>> problem = Problem(smoothness=1.0, heterogeneity=0.01, gradient_norm=2.0, gradient_std=0.1, initial_gap=1.0)
      >>> local = LocalAlgorithm(rate=0.01, bias=0.0, moment=2.0)
      >>> bound = algorithm_convergence_bound(problem, Defence(inverse_contraction=1.5), local, iterations=10_000)
      >>> print(bound.value.round(3), bound.vacuous)
      0.387 False
    """
    return _judged(_bound(problem, defence, algorithm, iterations), problem.gradient_norm)


def momentum_sgd(problem: Problem, *, rate: Numbers, local_steps: Numbers, beta: Numbers) -> MomentumSGD:
    """Proposition 3: local momentum SGD has eta_A = eta I, A_2 = S and, corrected, A_1 = a (D + S) + eta h L S.

    a = beta (1-beta^I) / (I (1-beta)) and h = (1/I) sum_{j<I} j (1-beta^(I-j)). The paper prints A_1 = a D + S + h L S,
    which adds S for unbiased gradients (eq. 199) and drops eta (eq. 200).

    Args:
      problem: its constants.
      rate: eta.
      local_steps: I.
      beta: momentum, in [0, 1).

    Examples:
      >>> problem = Problem(smoothness=1.0, heterogeneity=1.0, gradient_norm=2.0, gradient_std=1.0, initial_gap=1.0)
      >>> print(momentum_sgd(problem, rate=0.01, local_steps=5, beta=0.9).corrected.bias.round(3))
      3.131
    """
    smoothness, norm, moment, _ = constants(problem)
    step, eta = total_step(rate, local_steps), np.asarray(rate)
    steps, beta = _validate.integer(local_steps=local_steps), _validate.real("[0, 1)", beta=beta)
    if np.max(steps) > _validate.LONGEST:
        _validate.fail("local_steps", local_steps, f"at most {_validate.LONGEST}")
    stale = beta * _lacking(beta, steps) / (steps * (1 - beta))
    drift = np.vectorize(_fresh, otypes=[np.float64])(beta, steps)[()] * smoothness * moment
    return MomentumSGD(
        printed=LocalAlgorithm(step, stale * norm + moment + drift, moment),
        corrected=LocalAlgorithm(step, stale * (norm + moment) + eta * drift, moment),
    )


def _fresh(beta: float, steps: float) -> float:
    """`(1/I) sum_{j<I} j (1-beta^(I-j))`, term by term: the closed form loses its digits as beta goes to 1."""
    j = np.arange(steps)
    return float(j @ _lacking(beta, steps - j) / steps)


def _lacking(beta: Numbers, power: Numbers) -> Result:
    """1 - beta^power, accurate near 0."""
    return -np.expm1(special.xlogy(power, beta))


def _bound(problem: Problem, defence: Defence, algorithm: LocalAlgorithm, iterations: Numbers) -> Result:
    """The right side of Theorem 4."""
    smoothness, norm, _, gap = constants(problem)
    _validate.setting(LocalAlgorithm, algorithm=algorithm)
    rate, moment = _validate.real("(0, inf)", rate=algorithm.rate), _validate.real("[0, inf)", moment=algorithm.moment)
    disturbed = disturbance(defence)
    bias, inverse = _validate.real("[0, inf)", bias=algorithm.bias), check_inverse(defence.inverse_contraction)
    first = 2 * moment * smoothness * (moment + 2 * inverse * norm + 8 * disturbed * moment)
    second = 8 * np.square(inverse * moment * smoothness)
    floor = 2 * norm * (bias + problem.heterogeneity + 2 * np.sqrt(2 * disturbed) * moment)
    return 2 * gap / (rate * _validate.integer(iterations=iterations)) + rate * first + rate**2 * second + floor


def _judged(value: Result, norm: Numbers) -> Bound:
    return Bound(value, value >= np.square(norm))

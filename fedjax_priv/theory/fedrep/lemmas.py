"""FedREP's assumptions, its error memory (Lemma 1) and the error of its aggregate (Lemma 2).

S^2 = D^2 + sigma^2 bounds the second moment of a stochastic gradient. H = d/d' is `Contraction.inverse`.
"""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result


class Problem(NamedTuple):
    """Constants of F, the mean of the honest clients' F_k, all of them L-smooth."""

    smoothness: Numbers  # L
    heterogeneity: Numbers  # B: ||grad F_k - grad F|| <= B
    gradient_norm: Numbers  # D: ||grad F_k|| <= D
    gradient_std: Numbers  # sigma: E||stochastic - full gradient of F_k||^2 <= sigma^2
    initial_gap: Numbers  # F(w^0) - F*


class Defence(NamedTuple):
    """How much sparsification keeps of updates, and the (delta, c)-robustness of the aggregator, buffers included."""

    inverse_contraction: Numbers  # H >= 1
    robustness: Numbers = 0.0  # c
    byzantine_fraction: Numbers = 0.0  # delta, in [0, 1/2)


def memory_bound(
    problem: Problem, inverse_contraction: Numbers, rate: Numbers, local_steps: Numbers, *, decaying: bool = False
) -> Result:
    """Lemma 1: E||u_k||^2 <= 4 H^2 I^2 S^2 eta^2, for plain local SGD.

    Args:
      problem: its constants.
      inverse_contraction: H.
      rate: eta, or eta_t if the rate decays.
      local_steps: I.
      decaying: True: the rate is eta_t = b / sqrt(t + 4H), and 8 H^2 replaces 4 H^2 (eq. 121).

    Examples:
      >>> problem = Problem(smoothness=1.0, heterogeneity=1.0, gradient_norm=2.0, gradient_std=1.0, initial_gap=1.0)
      >>> print(memory_bound(problem, inverse_contraction=2.0, rate=0.01, local_steps=5).round(3))
      0.2
    """
    _, _, moment, _ = constants(problem)
    decaying = _validate.flag(decaying=decaying)
    return _memory(check_inverse(inverse_contraction), decaying) * np.square(moment * total_step(rate, local_steps))


def aggregate_error_bound(
    problem: Problem, defence: Defence, rate: Numbers, local_steps: Numbers, *, decaying: bool = False
) -> Result:
    """Lemma 2: E||aggregate - honest mean||^2 <= 8 c delta I^2 (4 H^2 + 1) S^2 eta^2, for plain local SGD.

    Arguments and errors are those of `memory_bound` (eq. 135 for a decaying rate); H, c and delta are in `defence`.

    Examples:
      >>> problem = Problem(smoothness=1.0, heterogeneity=1.0, gradient_norm=2.0, gradient_std=1.0, initial_gap=1.0)
      >>> defence = Defence(inverse_contraction=2.0, robustness=1.0, byzantine_fraction=0.1)
      >>> print(aggregate_error_bound(problem, defence, rate=0.01, local_steps=5).round(3))
      0.17
    """
    _, _, moment, _ = constants(problem)
    decaying = _validate.flag(decaying=decaying)
    return 8 * disturbance(defence, decaying) * np.square(moment * total_step(rate, local_steps))


def constants(problem: Problem) -> tuple[Result, Result, Result, Result]:
    """L, D, S and F(w^0) - F*."""
    _validate.setting(Problem, problem=problem)
    smoothness, norm, std, gap = (
        _validate.real("[0, inf)", **{name: getattr(problem, name)})
        for name in ("smoothness", "gradient_norm", "gradient_std", "initial_gap")
    )
    _validate.real("[0, inf)", heterogeneity=problem.heterogeneity)
    return smoothness, norm, np.hypot(norm, std), gap


def total_step(rate: Numbers, local_steps: Numbers) -> Result:
    """eta I."""
    return _validate.real("(0, inf)", rate=rate) * _validate.integer(local_steps=local_steps)


def disturbance(defence: Defence, decaying: bool = False) -> Result:
    """c delta (4 H^2 + 1)."""
    c = _validate.real("[0, inf)", robustness=_validate.setting(Defence, defence=defence).robustness)
    delta = _validate.real("[0, 0.5)", byzantine_fraction=defence.byzantine_fraction)
    return c * delta * (_memory(check_inverse(defence.inverse_contraction), decaying) + 1)


def check_inverse(inverse_contraction: Numbers) -> np.ndarray:
    """H; ValueError below 1."""
    return _validate.real("[1, inf)", inverse_contraction=inverse_contraction)


def _memory(inverse: Result, decaying: bool) -> Result:
    return (8 if decaying else 4) * np.square(inverse)

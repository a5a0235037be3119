"""How fast does CDP-FL converge? Theorem 2 and Lemma 6: as printed, which is false, and corrected for equal losses."""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result


class Problem(NamedTuple):
    """Constants of f and of its gradients."""

    smoothness: Numbers  # L
    gradient_std: Numbers  # beta: E||one sample's gradient - grad f_i||^2 <= beta^2
    initial_gap: Numbers  # f(theta^0) - f*
    num_params: Numbers  # d


class Schedule(NamedTuple):
    """How all devices train."""

    rate: Numbers  # eta
    local_steps: Numbers  # tau
    rounds: Numbers  # T, K = T tau
    num_selected: Numbers  # r
    batch_size: Numbers  # gamma
    sigma: Numbers  # standard deviation of the noise on a coordinate of the mean gradient


class Bound(NamedTuple):
    """The value of a formula, and whether its condition on the rate is met."""

    value: Result
    applies: np.bool_ | np.ndarray


class ConvergenceBound(NamedTuple):
    """The bound as printed, for 5 eta L + 3 tau^2 eta^2 L^2 <= 1, and the corrected one, for eta L <= 1."""

    printed: Bound
    corrected: Bound


def convergence_bound(problem: Problem, schedule: Schedule) -> ConvergenceBound:
    """Theorem 2 (eq. 14): a bound on mean_{k<K} E||grad f||^2 at the running average of the selected models.

    Printed: 2 (f0-f*) / (eta K) + eta L beta^2 / (2 gamma) + eta L d sigma^2 / (2r)
    + (tau-1) (2 tau-1) eta^2 L^2 (2 beta^2 / (3 gamma) + d sigma^2 (r+1) / (3r)). This counts half of a step's noise,
    and nothing for devices with different losses.
    Corrected: 2 (f0-f*) / (eta K) + N, for f_i = f, independent unbiased batches and clipping that never acts, with
    N = eta L v/r + ((tau-1)/2) (1 + eta L)^(2 tau) eta^2 L^2 v (1 - 1/r) and v = beta^2/gamma + d sigma^2.

    Examples:
      >>> problem = Problem(smoothness=1.0, gradient_std=1.0, initial_gap=1.0, num_params=100)
      >>> schedule = Schedule(rate=0.01, local_steps=5, rounds=200, num_selected=10, batch_size=10, sigma=0.1)
      >>> bound = convergence_bound(problem, schedule)
      >>> print(bound.printed.value.round(4), bound.corrected.value.round(4))
      0.2026 0.2013
    """
    smoothness, _, gap, _ = _constants(problem)
    rate, steps, rounds, *_ = _fields(schedule)
    start = 2 * gap / (rate * steps * rounds)
    return _bounds(
        start + _printed_noise(problem, schedule), start + _noise(problem, schedule), rate * smoothness, steps
    )


def strongly_convex_bound(problem: Problem, schedule: Schedule, strong_convexity: Numbers) -> ConvergenceBound:
    """Lemma 6 (eq. 15): a bound on mean_{k=1..K} E f - f* at the running average of the selected models.

    Printed: (1 - eta lambda) (f0-f*) / (K eta lambda) + eta L beta^2 / (4 lambda gamma)
    + eta L d sigma^2 / (4 r lambda)
    + eta^2 L^2 (tau-1) (2 tau-1) (beta^2 / (3 lambda gamma) + d sigma^2 (r+1) / (6 r lambda)).
    Corrected: (1 - eta lambda) (f0-f*) / (K eta lambda) + N / (2 lambda), with N and conditions of `convergence_bound`.

    Args:
      strong_convexity: lambda, with 2 lambda (f - f*) <= ||grad f||^2; in (0, L].

    Examples:
      >>> problem = Problem(smoothness=1.0, gradient_std=1.0, initial_gap=1.0, num_params=100)
      >>> schedule = Schedule(rate=0.01, local_steps=5, rounds=200, num_selected=10, batch_size=10, sigma=0.1)
      >>> print(strongly_convex_bound(problem, schedule, strong_convexity=0.5).corrected.value.round(4))
      0.2003
    """
    smoothness, _, gap, _ = _constants(problem)
    rate, steps, rounds, *_ = _fields(schedule)
    convexity = _validate.real("(0, inf)", strong_convexity=strong_convexity)
    if (convexity > smoothness).any():
        _validate.fail("strong_convexity", strong_convexity, f"at most smoothness = {problem.smoothness}")
    start = (1 - rate * convexity) * gap / (steps * rounds * rate * convexity)
    printed, corrected = (start + noise(problem, schedule) / (2 * convexity) for noise in (_printed_noise, _noise))
    return _bounds(printed, corrected, rate * smoothness, steps)


def _printed_noise(problem: Problem, schedule: Schedule) -> Result:
    smoothness, std, _, d = _constants(problem)
    rate, steps, _, r, batch, sigma = _fields(schedule)
    step, sampling, privacy = rate * smoothness, std**2 / batch, d * sigma**2
    drift = (steps - 1) * (2 * steps - 1) * step**2 * (2 * sampling / 3 + privacy * (r + 1) / (3 * r))
    return step * (sampling + privacy / r) / 2 + drift


def _noise(problem: Problem, schedule: Schedule) -> Result:
    """N: the noise of a step in the average, plus the fraction 1 - 1/r of the models' spread around the average."""
    smoothness, std, _, d = _constants(problem)
    rate, steps, _, r, batch, sigma = _fields(schedule)
    step, variance = rate * smoothness, std**2 / batch + d * sigma**2
    spread = (steps - 1) / 2 * (1 + step) ** (2 * steps) * step**2 * (1 - 1 / r)
    return variance * (step / r + spread)


def _bounds(printed: Result, corrected: Result, step: Result, steps: Result) -> ConvergenceBound:
    return ConvergenceBound(
        Bound(printed, 5 * step + 3 * (steps * step) ** 2 <= 1), Bound(corrected, np.less_equal(step, 1))
    )


def _constants(problem: Problem) -> tuple[Result, Result, Result, Result]:
    """L, beta, f0 - f* and d."""
    _validate.setting(Problem, problem=problem)
    smoothness, std, gap = (
        _validate.real("[0, inf)", **{name: getattr(problem, name)})
        for name in ("smoothness", "gradient_std", "initial_gap")
    )
    return smoothness, std, gap, _validate.integer(num_params=problem.num_params)


def _fields(schedule: Schedule) -> tuple[Result, Result, Result, Result, Result, Result]:
    """Eta, tau, T, r, gamma and sigma."""
    _validate.setting(Schedule, schedule=schedule)
    steps, rounds, r, batch = (
        _validate.integer(**{name: getattr(schedule, name)})
        for name in ("local_steps", "rounds", "num_selected", "batch_size")
    )
    rate, sigma = _validate.real("(0, inf)", rate=schedule.rate), _validate.real("[0, inf)", sigma=schedule.sigma)
    return rate, steps, rounds, r, batch, sigma

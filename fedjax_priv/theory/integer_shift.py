"""Integer noise and one integer shift: eps that no proof can go below.

Two adjacent inputs of a secure sum differ by an integer shift at every coordinate. Many shifts are possible. Each of
them gives a lower bound on eps, whereas the theorems (`skellam`) are upper bounds for all shifts.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import ive

from fedjax_priv.theory import _validate

_LOST = 1e-3  # eps is too small by at most about this, since losses are rounded down
_STEPS = 1e-5, 1e-4  # least and largest step of the discrete privacy loss
_DEVIATIONS = 12.0  # standard deviations of the noise that are considered
_RARE = -100.0  # log of a mass that counts as 0
_SMALL = 600.0  # an eps for which e^-eps is far from underflow
_LARGEST_SHIFT, _MOST_VARIANCE = 2**20, 2.0**28  # outcomes up to there take seconds; beyond, I_0 is NaN
_MOST_LOSS = 100.0  # mean of many rounds; more takes minutes, for an eps that says nothing
_BEYOND = 30  # steps of a continued fraction before the first one that is used


def skellam_epsilon(delta: float, shift: Sequence[int], variance: float, rounds: int = 1) -> float:
    """A lower bound on eps of Skellam noise: the eps for one shift of the sum, to about 3 digits.

    Args:
      delta: in (0, 1).
      shift: `[d]`, integers, the difference of the two sums at each coordinate; up to 2^20 and down to -2^20.
      variance: of the noise at a coordinate, in (0, 2^28].
      rounds: number of rounds with this shift, whose mean privacy loss is at most 100 if there are several.

    Examples:
      >>> print(round(skellam_epsilon(1e-5, [1, 1], variance=100.0), 2))
      0.49
    """
    v = _validate.number(f"(0, {_MOST_VARIANCE}]", variance=variance)
    return _epsilon(delta, shift, v, rounds, lambda last: _log_skellam(last, v))


def discrete_gaussian_epsilon(delta: float, shift: Sequence[int], sigma: float, rounds: int = 1) -> float:
    """As `skellam_epsilon`, for noise with probabilities proportional to exp(-k^2 / (2 sigma^2)).

    Args:
      delta: in (0, 1).
      shift: as in `skellam_epsilon`.
      sigma: the parameter of the noise, in (0, 2^14]; about its standard deviation.
      rounds: as in `skellam_epsilon`.

    Examples:
      >>> print(round(discrete_gaussian_epsilon(1e-5, [1, 1], sigma=10.0), 2))
      0.5
    """
    s = _validate.number(f"(0, {_MOST_VARIANCE**0.5}]", sigma=sigma)
    return _epsilon(delta, shift, s**2, rounds, lambda last: _log_discrete_gaussian(last, s))


def _log_skellam(last: int, variance: float) -> np.ndarray:
    """Logarithms of the masses at 0, ..., `last`; the masses themselves may underflow.

    They are sums of log ratios. The ratios are I_k / I_{k-1} = 1 / (2 k / v + I_{k+1} / I_k) (DLMF 10.29.1), computed
    backwards from a bound of Amos (1974) a little beyond `last`; each step reduces its error.
    """
    far = last + _BEYOND
    ratio = variance / (far + 0.5 + math.hypot(far + 1.5, variance))
    ratios = np.empty(far)
    for k in range(far, 0, -1):
        ratios[k - 1] = ratio = 1 / (2 * k / variance + ratio)
    return np.log(ive(0, variance)) + np.append(0, np.cumsum(np.log(ratios[:last])))


def _log_discrete_gaussian(last: int, sigma: float) -> np.ndarray:
    powers = -(np.arange(last + 1.0) ** 2) / (2 * sigma**2)
    return powers - np.log(2 * np.exp(powers).sum() - 1)


def _epsilon(
    delta: float, shift: Sequence[int], variance: float, rounds: int, log_masses: Callable[[int], np.ndarray]
) -> float:
    target, count = _validate.number("(0, 1)", delta=delta), _validate.whole(rounds=rounds)
    sizes, often = np.unique(np.abs(_integers(shift)), return_counts=True)
    kinds = [(int(size), count * int(n)) for size, n in zip(sizes, often, strict=True) if size]
    if not kinds:
        return 0.0
    mean_loss = sum(size**2 * often for size, often in kinds) / (2 * variance)
    if count > 1 and mean_loss > _MOST_LOSS:
        most = f"at most {_MOST_LOSS:g}: rounds sum(shift^2) / (2 variance) = {mean_loss:.3g}"
        _validate.fail("rounds", rounds, f"such that the mean privacy loss is {most}")
    step = float(np.clip(_LOST / sum(n for _, n in kinds), *_STEPS))
    losses = [_loss(size, variance, log_masses, n, step) for size, n in kinds]
    return _inverse(functools.reduce(lambda a, b: a.compose(b), losses), target)


def _inverse(losses, delta: float) -> float:
    """Eps at delta. The library's own inverse underflows for large losses, but its delta at a given eps does not."""
    from scipy.optimize import brentq  # slow to import

    found = float(losses.get_epsilon_for_delta(delta))
    if found < _SMALL:
        return found
    excess = lambda epsilon: losses.get_delta_for_epsilon(epsilon) - delta
    low = _SMALL / 2
    while excess(2 * low) > 0:
        low *= 2
    root: Any = brentq(excess, low, 2 * low)
    return float(root)


def _integers(shift: Sequence[int]) -> np.ndarray:
    array = np.asarray(shift)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
        _validate.fail("shift", shift, "integers, [d]")
    if (np.abs(array.astype(np.float64)) > _LARGEST_SHIFT).any():
        _validate.fail("shift", shift, f"integers from {-_LARGEST_SHIFT} to {_LARGEST_SHIFT}")
    return array


def _loss(size: int, variance: float, log_masses: Callable[[int], np.ndarray], count: int, step: float):
    """An optimistic loss distribution, with losses rounded down: its eps is a lower bound.

    Both laws are cut to the same outcomes: an outcome of only one law would count as an infinite loss.
    """
    from dp_accounting.pld import privacy_loss_distribution  # takes a second

    far = int(np.ceil(_DEVIATIONS * np.sqrt(variance))) + size + 10
    log_of = log_masses(far + size)
    outcomes = range(-far, far + size + 1)
    one = privacy_loss_distribution.from_two_probability_mass_functions(
        {k: float(log_of[abs(k)]) for k in outcomes},
        {k: float(log_of[abs(k - size)]) for k in outcomes},
        pessimistic_estimate=False,
        value_discretization_interval=step,
        log_mass_truncation_bound=_RARE,
    )
    return one.self_compose(count) if count > 1 else one

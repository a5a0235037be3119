"""Three cases in which Theorem 1 is false: the exact law of the released sum, and its true delta at the claimed eps.

Device i takes part in one round with r - 1 others. Adjacent data sets differ in the sign of the gradient +-G of one of
its m samples. The model has one parameter. The released sum S = sum_j (theta_j - theta^t) is in units of eta sigma; its
laws under the two data sets are mirror images about 0.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

from fedjax_priv.theory import _roots, _validate, zcdp
from fedjax_priv.theory.cdp_fl.claimed import printed_rho
from fedjax_priv.theory.cdp_fl.training import Training

_FRACTION_OF_CLIP = 8  # case (ii): other samples' gradients reach the clip at 8 standard deviations of a step's noise


class Law(NamedTuple):
    """A mixture of normal laws: the law of S for gradient -G. For gradient G, the law is its mirror image."""

    weights: np.ndarray  # [k]
    means: np.ndarray  # [k]
    stds: np.ndarray  # [k]


class Counterexample(NamedTuple):
    """A case in which Theorem 1 claims eps at some delta."""

    training: Training  # one round at G = 1, for which the theorem claims this eps
    law: Law
    threshold: float  # the event S > threshold has the largest P[E] - e^eps P'[E]
    delta: float  # this largest value: the true delta at eps

    @property
    def sigma(self) -> float:
        """Sigma in units of G."""
        return float(np.asarray(self.training.sigma))


def smooth_convex(
    epsilon: float, delta: float, *, local_steps: int = 10, num_selected: int = 10, num_samples: int = 100
) -> Counterexample:
    """(i) All losses are convex and smooth, gamma = m: rho is tau r / (tau + r - 1) times the claimed one.

    The other samples of device i have gradient 0. All samples of other devices have gradient (theta - theta^t)/eta,
    clipped to G, which resets these devices at every step: each contributes the noise of one step, device i of tau
    steps.

    Args:
      epsilon: claimed by Theorem 1, > 0.
      delta: of the claim, in (0, 1).
      local_steps: tau.
      num_selected: r.
      num_samples: m.

    Examples:
      >>> case = smooth_convex(1.0, 1e-5)  # Theorem 1 states eps = 1 at delta = 1e-5
      >>> print(case.delta > 1e-5, round(true_epsilon(case.law, 1e-5), 2))
      True 1.85
    """
    training, sigma = _stated(epsilon, delta, Training(1, local_steps, 1.0, num_selected, num_samples, num_samples))
    std = np.sqrt(local_steps + num_selected - 1)
    return _counterexample(epsilon, training, [1], [local_steps / (num_samples * sigma)], [std])


def one_pass(epsilon: float, delta: float, *, num_selected: int = 10, batch_size: int = 500) -> Counterexample:
    """(ii) One pass of two steps, from theta = 0: a concave loss amplifies the first step.

    The other samples of device i have loss -A theta^2/2, A = G / (8 eta sigma), and gradients clipped to G. The law
    ignores this clipping: up to eps = 10 it changes P and P' of the event by less than 1e-14. On other devices all
    gradients are 0. Arguments and errors are those of `smooth_convex`; `batch_size` is gamma, half of m.

    Examples:
      >>> case = one_pass(1.0, 1e-5)  # Theorem 1 states eps = 1 at delta = 1e-5
      >>> print(case.delta > 1e-5, round(true_epsilon(case.law, 1e-5), 2))
      True 1.26
    """
    training, sigma = _stated(epsilon, delta, Training(1, 2, 1.0, num_selected, 2 * batch_size, batch_size))
    growth, touch = 1 / (_FRACTION_OF_CLIP * sigma), 1 / (batch_size * sigma)
    first, second = 1 + growth, 1 + growth * (1 - 1 / batch_size)  # by which the second step multiplies the model
    means = [first * touch, touch]
    stds = [np.sqrt(factor**2 + 1 + 2 * (num_selected - 1)) for factor in (first, second)]
    return _counterexample(epsilon, training, [0.5, 0.5], means, stds)


def part_of_a_pass(
    epsilon: float, delta: float, *, num_selected: int = 10, num_samples: int = 1000, batch_size: int = 1
) -> Counterexample:
    """(iii) tau = 1 and gamma < m: a used sample costs rho_1 / r, but eq. 10 counts only the fraction gamma / m of it.

    All other gradients are 0, and the batch is secret. Arguments and errors are those of `smooth_convex`; `batch_size`
    is gamma, below m.

    Examples:
      >>> case = part_of_a_pass(1.0, 1e-5)  # Theorem 1 states eps = 1 at delta = 1e-5
      >>> print(case.delta > 1e-5, round(true_epsilon(case.law, 1e-5), 2))
      True 5.06
    """
    if not _validate.whole(batch_size=batch_size) < _validate.whole(num_samples=num_samples):
        _validate.fail("batch_size", batch_size, f"below num_samples = {num_samples}")
    training, sigma = _stated(epsilon, delta, Training(1, 1, 1.0, num_selected, num_samples, batch_size))
    used = batch_size / num_samples
    std = np.sqrt(num_selected)
    return _counterexample(epsilon, training, [used, 1 - used], [1 / (batch_size * sigma), 0], [std, std])


def true_epsilon(law: Law, delta: float) -> float:
    """The smallest eps that the law of S in a counterexample has at delta in (0, 1).

    Examples:
      >>> print(round(true_epsilon(smooth_convex(1.0, 1e-5).law, 1e-5), 2))  # where Theorem 1 states 1
      1.85
    """
    _validate.number("(0, 1)", delta=delta)
    _validate.setting(Law, law=law)
    return float(_roots.unbounded_least(lambda epsilon: np.float64(_worst_event(law, float(epsilon))[1]), delta))


def _stated(epsilon: float, delta: float, training: Training) -> tuple[Training, float]:
    """The training with the sigma for which eq. 10 gives eps, and this sigma."""
    stated = zcdp.rho(_validate.number("(0, inf)", epsilon=epsilon), _validate.number("(0, 1)", delta=delta))
    sigma = float(np.sqrt(printed_rho(training) / stated))
    return training._replace(sigma=sigma), sigma


def _counterexample(epsilon: float, training: Training, weights, means, stds) -> Counterexample:
    law = Law(*(np.array(part, np.float64) for part in (weights, means, stds)))
    return Counterexample(training, law, *_worst_event(law, epsilon))


def _worst_event(law: Law, epsilon: float) -> tuple[float, float]:
    """Threshold and delta. The ratio of the two densities rises from 1 at S = 0, so it is e^eps at one threshold."""
    excess = lambda s: _log_density(law, s) - _log_density(law, -s) - epsilon
    low, high = 0.0, 1.0
    while excess(high) < 0:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    here, there = (high - law.means) / law.stds, (high + law.means) / law.stds
    return high, float(law.weights @ (ndtr(-here) - np.exp(epsilon + log_ndtr(-there))))


def _log_density(law: Law, s: float) -> float:
    """Log density of S, up to a constant that is the same for both laws."""
    return np.logaddexp.reduce(np.log(law.weights / law.stds) - ((s - law.means) / law.stds) ** 2 / 2)

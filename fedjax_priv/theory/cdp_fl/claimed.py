"""Theorem 1 as the paper states it, its inverse, and the paper's two baselines. It is false in general: see `proved`.

Adjacent data sets have the same size and differ in one sample of one device; every figure is for that device. delta is
in (0, 1).
"""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate, zcdp
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.cdp_fl.training import Training, check_selected, checked


class DpSgdEpsilon(NamedTuple):
    """DP-SGD's eps: as printed, with the number n of all devices; corrected, with the number r of summed uploads."""

    printed: Result
    corrected: Result


def epsilon(training: Training, delta: Numbers) -> Result:
    """Which eps does the paper promise a device? Theorem 1 (eq. 10): eps = rho + 2 sqrt(rho log(1/delta)).

    rho = 2 C tau G^2 / (r m gamma sigma^2). The theorem claims that secure aggregation of r uploads divides rho by r.
    `counterexamples` has three cases in which this is false. The theorem follows from `proved_rho`, with nobody dropped
    or colluding, if tau = B with c^2 <= r/(r-1), or for whole passes with c <= 1 and B >= r, or if tau = B = 1.
    B = m/gamma, and c is the Lipschitz constant of a step.

    Raises:
      ValueError: tau is not a multiple of B: the theorem is for whole passes over the local data.

    Examples:
      >>> training = Training(30, 10, clip=1.0, num_selected=10, num_samples=1000, batch_size=100, sigma=0.5)
      >>> print(epsilon(training, 1e-5).round(3))
      0.335
    """
    at_one = _whole_passes(training)
    return zcdp.epsilon(at_one / checked(training).sigma ** 2, delta)


def sigma_for_epsilon(training: Training, epsilon: Numbers, delta: Numbers) -> Result:
    """For which sigma does Theorem 1 give `epsilon` > 0? 0 for a device that took part in no round.

    `training.sigma` is not read.

    Examples:
      >>> training = Training(30, 10, clip=1.0, num_selected=10, num_samples=1000, batch_size=100)
      >>> print(sigma_for_epsilon(training, epsilon=1.0, delta=1e-5).round(3))
      0.17
    """
    return np.sqrt(_whole_passes(training) / zcdp.rho(_validate.real("(0, inf)", epsilon=epsilon), delta))


def upload_epsilon(training: Training, delta: Numbers) -> Result:
    """The paper's eps without secure aggregation, when every upload is seen: Theorem 1 with r = 1.

    Examples:
      >>> training = Training(30, 10, clip=1.0, num_selected=10, num_samples=1000, batch_size=100, sigma=0.5)
      >>> print(upload_epsilon(training, 1e-5).round(3))
      1.075
    """
    return epsilon(_validate.setting(Training, training=training)._replace(num_selected=1), delta)


def dp_sgd_epsilon(training: Training, num_devices: Numbers, delta: Numbers) -> DpSgdEpsilon:
    """The paper's baseline of one step per round: rho = 2 C G^2 / (n gamma^2 sigma^2); corrected, r replaces n.

    Both count a sample as if it were in every batch; `amplified_epsilon` does not. `training.local_steps` is not read.

    Args:
      training: with r <= n.
      num_devices: n.
      delta: in (0, 1).

    Examples:
      >>> training = Training(100, 1, clip=1.0, num_selected=10, num_samples=1000, batch_size=100, sigma=0.5)
      >>> print(dp_sgd_epsilon(training, num_devices=100, delta=1e-5).printed.round(3))
      0.193
    """
    one = checked(training)
    n, r = _validate.integer(num_devices=num_devices), check_selected(training.num_selected, num_devices)
    alone = one.rounds_taken * one.step_rho
    return DpSgdEpsilon(zcdp.epsilon(alone / n, delta), zcdp.epsilon(alone / r, delta))


def step_rho(clip: Numbers, batch_size: Numbers, sigma: Numbers) -> Result:
    """rho_1 = 2 G^2 / (gamma^2 sigma^2), the rho of a local step whose batch contains the sample (Corollary 1).

    Examples:
      >>> print(step_rho(clip=1.0, batch_size=100, sigma=0.5))
      0.0008
    """
    return checked(Training(1, 1, clip, 1, 1, batch_size, sigma)).step_rho


def printed_rho(training: Training) -> Result:
    """The rho of eq. 10 at sigma = 1, as printed, for any number of local steps; rho scales with 1 / sigma^2."""
    one = checked(_validate.setting(Training, training=training)._replace(sigma=1.0))
    return one.rounds_taken * (one.local_steps / _equal_batches(training) / one.num_selected) * one.step_rho


def _equal_batches(training: Training) -> Result:
    """B = m/gamma; ValueError unless it is an integer."""
    batches, rest = np.divmod(np.asarray(training.num_samples, np.float64), training.batch_size)
    if rest.any():
        _validate.fail("batch_size", training.batch_size, f"a divisor of num_samples = {training.num_samples}")
    return batches


def _whole_passes(training: Training) -> Result:
    one = checked(_validate.setting(Training, training=training)._replace(sigma=1.0))
    if np.any(one.local_steps % _equal_batches(training)):
        allowed = (
            f"a multiple of num_samples / batch_size = {training.num_samples} / {training.batch_size} "
            "(Theorem 1 is for whole passes)"
        )
        _validate.fail("local_steps", training.local_steps, allowed)
    return printed_rho(training)

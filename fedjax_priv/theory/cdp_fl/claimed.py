"""Theorem 1 as the paper states it, its inverse, and its two baselines. False in general: see `proved` for what holds.

Neighbouring data sets are of one size and differ in one sample of one device; every figure is that device's.
"""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate, zcdp
from fedjax_priv.theory._validate import Numbers, Result


class DpSgdEpsilon(NamedTuple):
    """DP-SGD's eps with the number of devices n as printed, and with the r that are summed, as the argument gives."""

    printed: Result
    corrected: Result


def epsilon(
    rounds_taken: Numbers,
    local_steps: Numbers,
    clip: Numbers,
    num_selected: Numbers,
    num_samples: Numbers,
    batch_size: Numbers,
    sigma: Numbers,
    delta: Numbers,
) -> Result:
    """Theorem 1 (eq. 10): eps = rho + 2 sqrt(rho log(1/delta)), rho = 2 C tau G^2 / (r m gamma sigma^2).

    It claims that secure aggregation of r uploads divides rho by r. `counterexamples` has three cases in which this is
    false. It follows from `proved_rho`, with nobody dropped or colluding, if tau = B with c^2 <= r/(r-1), or for whole
    passes with c <= 1 and B >= r, or if tau = B = 1, where B = m/gamma and c is the Lipschitz constant of a step.

    Args:
      rounds_taken: C, rounds the device took part in; an array for one eps per device.
      local_steps: tau, a multiple of B: whole passes over the local data.
      clip: G, the norm each sample's gradient is clipped to.
      num_selected: r, devices of a round.
      num_samples: m, training samples of the device.
      batch_size: gamma, a divisor of m.
      sigma: standard deviation of the noise on a coordinate of the mean gradient.
      delta: in (0, 1).

    Raises:
      ValueError: an argument outside its range.
    """
    at_one = _whole_passes(rounds_taken, local_steps, clip, num_selected, num_samples, batch_size)
    return zcdp.epsilon(at_one / _validate.real("(0, inf)", sigma=sigma) ** 2, delta)


def sigma_for_epsilon(
    epsilon: Numbers,
    rounds_taken: Numbers,
    local_steps: Numbers,
    clip: Numbers,
    num_selected: Numbers,
    num_samples: Numbers,
    batch_size: Numbers,
    delta: Numbers,
) -> Result:
    """The sigma for which Theorem 1 gives `epsilon` > 0; 0 for a device that took part in no round.

    Arguments and errors are those of `epsilon`.
    """
    at_one = _whole_passes(rounds_taken, local_steps, clip, num_selected, num_samples, batch_size)
    return np.sqrt(at_one / zcdp.rho(_validate.real("(0, inf)", epsilon=epsilon), delta))


def upload_epsilon(
    rounds_taken: Numbers,
    local_steps: Numbers,
    clip: Numbers,
    num_samples: Numbers,
    batch_size: Numbers,
    sigma: Numbers,
    delta: Numbers,
) -> Result:
    """The paper's eps without secure aggregation, where every upload is seen alone: Theorem 1 with r = 1.

    Arguments and errors are those of `epsilon`.
    """
    return epsilon(rounds_taken, local_steps, clip, 1, num_samples, batch_size, sigma, delta)


def dp_sgd_epsilon(
    rounds_taken: Numbers,
    clip: Numbers,
    num_devices: Numbers,
    num_selected: Numbers,
    batch_size: Numbers,
    sigma: Numbers,
    delta: Numbers,
) -> DpSgdEpsilon:
    """The paper's baseline of one step a round: rho = 2 C G^2 / (n gamma^2 sigma^2) as printed, r for n as it follows.

    Both charge a sample as if it were in every batch; `amplified_epsilon` does not.

    Args:
      rounds_taken: C, rounds the device took part in.
      clip: G.
      num_devices: n.
      num_selected: r <= n, devices of a round.
      batch_size: gamma.
      sigma: standard deviation of the noise on a coordinate of the mean gradient.
      delta: in (0, 1).

    Raises:
      ValueError: an argument outside its range.
    """
    n, r = _validate.integer(num_devices=num_devices), check_selected(num_selected, num_devices)
    alone = _validate.integer(at_least=0, rounds_taken=rounds_taken) * step_rho(clip, batch_size, sigma)
    return DpSgdEpsilon(zcdp.epsilon(alone / n, delta), zcdp.epsilon(alone / r, delta))


def step_rho(clip: Numbers, batch_size: Numbers, sigma: Numbers) -> Result:
    """rho_1 = 2 G^2 / (gamma^2 sigma^2), of a local step whose batch has the sample: Delta = 2 G/gamma (Corollary 1).

    Args:
      clip: G.
      batch_size: gamma.
      sigma: standard deviation of the noise on a coordinate of the mean gradient.

    Raises:
      ValueError: an argument outside its range.
    """
    sensitivity = 2 * _validate.real("(0, inf)", clip=clip) / _validate.integer(batch_size=batch_size)
    return zcdp.gaussian_rho(sensitivity, sigma)


def check_batches(num_samples: Numbers, batch_size: Numbers) -> Result:
    """B = m / gamma; ValueError unless it is an integer."""
    size = _validate.integer(batch_size=batch_size)
    batches, rest = np.divmod(_validate.integer(num_samples=num_samples), size)
    if rest.any():
        _validate.fail("batch_size", batch_size, f"a divisor of num_samples = {num_samples}")
    return batches


def check_selected(num_selected: Numbers, num_devices: Numbers) -> np.ndarray:
    """r; ValueError unless 1 <= r <= n."""
    r = _validate.integer(num_selected=num_selected)
    if (r > _validate.integer(num_devices=num_devices)).any():
        _validate.fail("num_selected", num_selected, f"at most num_devices = {num_devices}")
    return r


def printed_rho(
    rounds_taken: Numbers,
    local_steps: Numbers,
    clip: Numbers,
    num_selected: Numbers,
    num_samples: Numbers,
    batch_size: Numbers,
) -> Result:
    """The rho of eq. 10 at sigma = 1, as printed, for any number of local steps; it falls as 1 / sigma^2."""
    taken, steps = _validate.integer(at_least=0, rounds_taken=rounds_taken), _validate.integer(local_steps=local_steps)
    share = steps / check_batches(num_samples, batch_size) / _validate.integer(num_selected=num_selected)
    return taken * share * step_rho(clip, batch_size, 1.0)


def _whole_passes(rounds_taken, local_steps, clip, num_selected, num_samples, batch_size) -> Result:
    if np.any(_validate.integer(local_steps=local_steps) % check_batches(num_samples, batch_size)):
        allowed = (
            f"a multiple of num_samples / batch_size = {num_samples} / {batch_size} (Theorem 1 is for whole passes)"
        )
        _validate.fail("local_steps", local_steps, allowed)
    return printed_rho(rounds_taken, local_steps, clip, num_selected, num_samples, batch_size)

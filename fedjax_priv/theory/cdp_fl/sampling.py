"""What sampling adds to the guarantees: secret batches drawn anew in each round, and a random choice of devices."""

import numpy as np

from fedjax_priv.theory import _binomial, _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.cdp_fl.training import Training, check_selected, checked


def amplified_epsilon(training: Training, delta: Numbers) -> Result:
    """Which eps has one step per round (DP-SGD) on a secret batch, drawn anew without replacement in each round?

    Renyi differential privacy of Wang, Balle and Kasiviswanathan (2019) by dp-accounting, for the sum of r uploads. The
    adversary sees the sum and must know the noise of none of the r uploads; with r = 1 it may be anybody except the
    device. It does not hold for batches cut from one shuffle. `training.local_steps` is not read.

    Raises:
      ValueError: the batch is larger than the data.

    Examples:
      >>> training = Training(2, 1, clip=1.0, num_selected=10, num_samples=1000, batch_size=10, sigma=0.1)
      >>> print(amplified_epsilon(training, 1e-5).round(2))
      0.34
    """
    one = checked(training)
    if (one.batch_size > one.num_samples).any():
        _validate.fail("batch_size", training.batch_size, f"at most num_samples = {training.num_samples}")
    multiplier = np.sqrt(one.num_selected / (2 * one.step_rho))
    delta = _validate.real("(0, 1)", delta=delta)
    each = np.vectorize(_amplified, otypes=[np.float64])
    return each(one.rounds_taken, multiplier, one.num_samples, one.batch_size, delta)[()]


def delta_before_draw(delta: np.ndarray, num_selected: Numbers, num_devices: Numbers) -> Result:
    """delta(eps) = sum_c Bin(c; T, r/n) delta_c(eps), the mean over the random rounds in which a device takes part.

    It does not improve eps against the server and the selected devices, who know who takes part.

    Args:
      delta: `[..., T+1]`, delta_c(eps) of a device that takes part in c = 0, ..., T rounds, at one eps.
      num_selected: r <= n, devices of a round.
      num_devices: n.

    Returns:
      `[...]`.

    Examples:
      >>> print(delta_before_draw(np.array([0.0, 1e-5, 4e-5]), num_selected=1, num_devices=2).round(7))  # of two rounds
      1.5e-05
    """
    fraction = check_selected(num_selected, num_devices) / np.asarray(num_devices)
    by_count = _validate.real("[0, 1]", delta=delta)
    if not by_count.ndim or not by_count.shape[-1]:
        _validate.fail("delta", delta, "an array [..., T+1], with a last axis of counts")
    rounds = by_count.shape[-1] - 1
    return (by_count * _binomial.pmf(np.arange(rounds + 1), rounds, np.asarray(fraction)[..., None])).sum(-1)


def _amplified(rounds: float, noise_multiplier: float, num_samples: float, batch_size: float, delta: float) -> float:
    # imported here: it takes most of a second
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    step = GaussianDpEvent(float(noise_multiplier))
    if rounds:
        accountant.compose(SampledWithoutReplacementDpEvent(int(num_samples), int(batch_size), step), int(rounds))
    return accountant.get_epsilon(float(delta))

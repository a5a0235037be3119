"""What sampling adds to the guarantees: secret batches drawn anew in each round, and a random choice of devices."""

import numpy as np

from fedjax_priv.theory import _binomial, _validate, sampled_gaussian
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.cdp_fl.training import Training, check_selected, checked
from fedjax_priv.theory.sampled_gaussian import Round


def amplified_epsilon(training: Training, delta: Numbers) -> Result:
    """Which eps has one step per round (DP-SGD) on a secret batch, drawn anew without replacement in each round?

    The larger of both orders of adjacent inputs at each eps (Zhu, Dong and Wang 2022), composed over rounds. One round
    attains it if all other gradients are alike and opposite to that of the sample. More rounds stay a little below: 4%
    after 13 rounds at a rate of 0.1. A batch larger than the data holds all of it. The adversary sees the sum of r
    uploads and must know the noise of none of them; with r = 1 it may be anybody except the device. It does not hold
    for batches cut from one shuffle. `training.local_steps` is not read.

    Examples:
      >>> training = Training(2, 1, clip=1.0, num_selected=10, num_samples=1000, batch_size=10, sigma=0.1)
      >>> print(amplified_epsilon(training, 1e-5).round(2))
      0.06
    """
    one = checked(training)
    delta = _validate.real("(0, 1)", delta=delta)
    replaced = np.sqrt(2 * one.step_rho / one.num_selected)  # how far the sum moves, in deviations of its noise
    each = np.vectorize(_amplified, otypes=[np.float64])
    return each(one.rounds_taken, 2 / replaced, np.minimum(one.batch_size / one.num_samples, 1), delta)[()]


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


def _amplified(rounds: float, noise_multiplier: float, rate: float, delta: float) -> float:
    if not rounds:
        return 0.0
    one = Round(float(noise_multiplier), float(rate), "fixed size")
    return float(sampled_gaussian.epsilon(float(delta), [(one, int(rounds))], "replacement"))

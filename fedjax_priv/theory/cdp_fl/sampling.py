"""What chance adds to the guarantees: secret batches drawn afresh, and the guarantee before devices are drawn."""

import numpy as np

from fedjax_priv.theory import _binomial, _validate, sampled_gaussian
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.cdp_fl.training import Training, check_selected, checked
from fedjax_priv.theory.sampled_gaussian import Round


def amplified_epsilon(training: Training, delta: Numbers) -> Result:
    """How private is one step a round (DP-SGD) on a secret batch, drawn afresh without replacement each round?

    The larger of the two orders of neighbours at each eps (Zhu, Dong and Wang 2022), composed over rounds. One round
    attains it if all other gradients are alike and opposite to that of the sample. More rounds stay a little below: 4%
    after 13 rounds at a rate of 0.1. A batch larger than the data holds all of it. Whoever sees the sum of r uploads
    must know none of the r noises; with r = 1 it holds against everybody but the device. Batches cut from one shuffle
    are not drawn afresh. `training.local_steps` is not read.

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
    """delta(eps) = sum_c Bin(c; T, r/n) delta_c(eps): before it is drawn in which rounds a device takes part.

    It is no gain in eps: the server and the selected devices know who takes part.

    Args:
      delta: `[..., T+1]`, delta_c(eps) of a device that takes part in c of T rounds, at one eps.
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

"""What chance adds to the guarantees: secret batches drawn afresh, and the guarantee before devices are drawn."""

import numpy as np

from fedjax_priv.theory import _binomial, _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.cdp_fl.claimed import check_selected, step_rho


def amplified_epsilon(
    rounds_taken: Numbers,
    clip: Numbers,
    num_selected: Numbers,
    num_samples: Numbers,
    batch_size: Numbers,
    sigma: Numbers,
    delta: Numbers,
) -> Result:
    """Eps of one step a round (DP-SGD) on a secret batch of fixed size, drawn afresh without replacement each round.

    Renyi differential privacy of Wang, Balle and Kasiviswanathan (2019) by dp-accounting, for the sum of r uploads.
    Whoever sees the sum must know none of the r noises; with r = 1 it holds against everybody but the device. Batches
    cut from one shuffle are not drawn afresh.

    Args:
      rounds_taken: C, rounds the device took part in.
      clip: G.
      num_selected: r, uploads in the sum.
      num_samples: m.
      batch_size: gamma, at most m.
      sigma: standard deviation of the noise on a coordinate of the mean gradient.
      delta: in (0, 1).

    Raises:
      ValueError: an argument outside its range.
    """
    taken, r = _validate.integer(at_least=0, rounds_taken=rounds_taken), _validate.integer(num_selected=num_selected)
    m = _validate.integer(num_samples=num_samples)
    if (_validate.integer(batch_size=batch_size) > m).any():
        _validate.fail("batch_size", batch_size, f"at most num_samples = {num_samples}")
    noise_multiplier = np.sqrt(r / (2 * step_rho(clip, batch_size, sigma)))
    delta = _validate.real("(0, 1)", delta=delta)
    return np.vectorize(_amplified, otypes=[np.float64])(taken, noise_multiplier, m, batch_size, delta)[()]


def delta_before_draw(delta: np.ndarray, num_selected: Numbers, num_devices: Numbers) -> Result:
    """delta(eps) = sum_c Bin(c; T, r/n) delta_c(eps): before it is drawn in which rounds a device takes part.

    It is no gain in eps: the server and the selected devices know who takes part.

    Args:
      delta: `[..., T+1]`, delta_c(eps) of a device that takes part in c of T rounds, at one eps.
      num_selected: r <= n, devices of a round.
      num_devices: n.

    Returns:
      `[...]`.

    Raises:
      ValueError: an argument outside its range.
    """
    share = check_selected(num_selected, num_devices) / np.asarray(num_devices)
    by_count = _validate.real("[0, 1]", delta=delta)
    rounds = by_count.shape[-1] - 1
    return (by_count * _binomial.pmf(np.arange(rounds + 1), rounds, np.asarray(share)[..., None])).sum(-1)


def _amplified(rounds: float, noise_multiplier: float, num_samples: float, batch_size: float, delta: float) -> float:
    # imported here: it takes most of a second
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    step = GaussianDpEvent(float(noise_multiplier))
    if rounds:
        accountant.compose(SampledWithoutReplacementDpEvent(int(num_samples), int(batch_size), step), int(rounds))
    return accountant.get_epsilon(float(delta))

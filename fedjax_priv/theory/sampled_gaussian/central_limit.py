"""The central limit of many rounds with Poisson sampling: one Gaussian mechanism (Bu, Dong, Long and Su 2020)."""

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory.sampled_gaussian.accounting import Rounds, checked_kinds
from fedjax_priv.theory.sampled_gaussian.rounds import Round, checked


def central_limit_sensitivity(rounds: Rounds) -> float:
    """Sensitivity mu, in units of the noise, of the Gaussian mechanism that all rounds together approach.

    `mu = sqrt(sum_i T_i q_i^2 (exp(1 / z_i^2) - 1))`, for add/remove, as T grows with q sqrt(T) fixed. It is no bound:
    its eps can be too small, as in the example. It serves to compare with figures that were computed so ("mu-GDP").

    Args:
      rounds: as in `epsilon`, with Poisson sampling and without a capacity or a quorum.

    Raises:
      ValueError: an argument outside its range.

    Examples:
      >>> from fedjax_priv.theory import gaussian
      >>> rounds = [(Round(noise_multiplier=1.0, rate=0.01), 1000)]
      >>> mu = central_limit_sensitivity(rounds)
      >>> print(round(mu, 4), gaussian.epsilon(1e-5, mu).round(3), "where it is", epsilon(1e-5, rounds).round(3))
      0.4145 1.618 where it is 1.828
    """
    return float(np.sqrt(sum(_squared(one, count) for one, count in checked_kinds(rounds))))


def _squared(one: Round, count: int) -> float:
    z, q = checked(one)
    if one.sampling != "poisson" or one.capacity is not None or one.quorum is not None:
        _validate.fail("rounds", one, "of Poisson sampling without a capacity or a quorum")
    with np.errstate(over="ignore"):  # next to no noise: infinite
        return _validate.whole(rounds=count) * np.square(q) * np.expm1(np.square(1 / np.float64(z)))

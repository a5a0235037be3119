"""Levels of users that send one after another (OMA); in the model of `power_allocation` all send at once (NOMA).

The server receives every update alone and takes the mean. So each user k has its own level c_tk in a round, its own
budget and its own caps; q_tk = c_tk^2. A round takes K times as many channel uses, and the noise of its mean is

  `(1 / K^2) sum_k N0 / q_tk`

per coordinate, instead of N0 / (K^2 q_t). Replacing a user moves the received signal by up to 2 c_tk L, as before.
"""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers
from fedjax_priv.theory.wireless.energy_allocation import allocate_energy, limits_of_users
from fedjax_priv.theory.wireless.power_allocation import checked_weights


class OrthogonalAllocation(NamedTuple):
    """Squared levels by round and user, and the multipliers that certify them."""

    squared_levels: np.ndarray  # q_tk, [T, K]
    privacy_prices: np.ndarray  # nu_k >= 0, [K]; 0: the user has privacy budget left
    energy_prices: np.ndarray  # kappa_k >= 0, [K]; 0: the user has energy left


def allocate_orthogonal(
    weights: np.ndarray,
    budgets: np.ndarray,
    caps: Numbers = np.inf,
    *,
    prices: Numbers = 1.0,
    energy: Numbers = np.inf,
) -> OrthogonalAllocation:
    """The squared levels with the least noise, `allocate_energy` for each user alone.

    `q_tk = min(Q_tk, sqrt(w_t / (nu_k + kappa_k e_tk)))`, with `sum_t q_tk <= B_k` and `sum_t e_tk q_tk <= E_k`. The
    weakest user does not limit the others. Yet with equal budgets the noise is at least that of users that send at
    once, whose noise is one term of the sum over users here, and at most K times as much. Liu and Simeone 2021,
    "Privacy for free" (orthogonal access).

    Args:
      weights: w_t > 0, `[T]`, from `contraction_weights`.
      budgets: B_k > 0, `[K]`, each from `level_budget`, so each user may have its own eps and clip.
      caps: Q_tk > 0, `[T, K]` or a number: what power allows a user in a round, h_k^2 P_k / L^2.
      prices: e_tk > 0, `[T, K]` or a number: the energy of a squared level of 1, such as L^2 / h_k^2.
      energy: E_k > 0, `[K]` or a number: for all rounds together.

    Returns:
      Float64 levels `[T, K]`, and prices `[K]` of privacy and energy. The noise of the levels is
      `noise_cost(weights, squared_levels)`.

    Raises:
      ValueError: an argument outside its range, or of another shape.
      FloatingPointError: numbers are too far apart for float64.

    Examples:
      >>> found = allocate_orthogonal(np.array([0.25, 1.0]), np.array([3.0, 1.5]), np.array([[9.0, 9.0], [9.0, 0.6]]))
      >>> print(found.squared_levels)
      [[1.  0.9]
       [2.  0.6]]
      >>> print(found.privacy_prices.round(3))
      [0.25  0.309]
      >>> found = allocate_orthogonal(np.array([0.25, 1.0]), np.array([3.0, 1.5]), energy=np.array([1.5, 9.0]))
      >>> print(found.privacy_prices.round(3), found.energy_prices.round(3))  # only the first user lacks energy
      [0. 1.] [1. 0.]
    """
    w = checked_weights(weights)
    limits, most = _validate.real("(0, inf)", budgets=budgets), _validate.real("(0, inf]", caps=caps)
    if limits.ndim != 1 or not limits.size:
        raise ValueError(f"budgets must be numbers [K], one per user, got shape {limits.shape}")
    shape = (w.size, limits.size)
    if most.shape not in ((), shape):
        raise ValueError(f"caps must be a number, or [T, K], {list(shape)}, got shape {most.shape}")
    of_level = _validate.real("(0, inf)", prices=prices)
    if of_level.shape not in ((), shape):
        raise ValueError(f"prices must be a number, or [T, K], {list(shape)}, got shape {of_level.shape}")
    of_round, of_user = limits_of_users(w, np.broadcast_to(of_level, shape), energy)
    rows = zip(limits, of_round.T, of_user, np.broadcast_to(most, shape).T, strict=True)
    found = [allocate_energy(w, float(budget), price, float(limit), cap) for budget, price, limit, cap in rows]
    return OrthogonalAllocation(
        np.stack([each.squared_levels for each in found], axis=1),
        np.array([each.privacy_price for each in found]),
        np.array([each.energy_price for each in found]),
    )

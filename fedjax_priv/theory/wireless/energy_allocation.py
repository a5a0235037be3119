"""Levels under budgets of privacy and energy, in the model of `power_allocation`, and a dual certificate."""

from collections.abc import Callable

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers
from fedjax_priv.theory.wireless import _energy_prices
from fedjax_priv.theory.wireless.power_allocation import Allocation, allocate_checked, checked_rounds

_ROUNDED = 18
"""Prices are raised up to so many times against rounding: first by the last bit, then four times as much each time."""


def allocate_energy(
    weights: np.ndarray, budget: float, prices: np.ndarray, energy: Numbers, caps: Numbers = np.inf
) -> Allocation:
    """`allocate` with energy budgets in addition, `sum_t e_tk q_t <= E_k`, for one user or for each of K.

    `q_t = min(Q_t, sqrt(w_t / (nu + sum_k kappa_k e_tk)))`, with a multiplier kappa_k >= 0 per user, which is 0 if the
    user has energy left. With prices `[T]`, one user stands for the weakest user of each round; since no user is the
    weakest in all rounds, a limit per user is less strict.

    Args:
      weights: as in `allocate`.
      budget: as in `allocate`.
      prices: e_t > 0, `[T]` or `[T, K]`, the energy of a squared level of 1, such as L^2 / h_t^2.
      energy: E > 0 for all rounds together: one number or, with prices `[T, K]`, also `[K]`.
      caps: as in `allocate`.

    Raises:
      ValueError: an argument outside its range, or of another shape.
      FloatingPointError: numbers are too far apart for float64.

    Examples:
      >>> found = allocate_energy(np.array([1.0, 1.0]), 3.0, np.array([1.0, 4.0]), 5.0)
      >>> print(found.squared_levels.round(3), round(found.privacy_price, 3), round(found.energy_price, 3))
      [1.667 0.833] 0.0 0.36
      >>> found = allocate_energy(np.array([1.0, 1.0]), 3.0, np.array([[1.0, 4.0], [4.0, 1.0]]), np.array([5.0, 9.0]))
      >>> print(found.squared_levels.round(3), found.energy_price.round(3))  # the second user has energy left
      [1.667 0.833] [0.36 0.  ]
    """
    w, most = checked_rounds(weights, caps)
    total = _validate.number("(0, inf)", budget=budget)
    e, limit = limits_of_users(w, prices, energy)
    alone = np.ndim(prices) < 2
    kappa_of = lambda kappa: float(kappa[0]) if alone else kappa
    free = allocate_checked(w, total, most)
    if (free.squared_levels @ e <= limit).all():
        return free._replace(energy_price=kappa_of(np.zeros_like(limit)))
    start = free.squared_levels / max((free.squared_levels @ e / limit).max(), 1)
    cost = w / start
    rows = np.concatenate([np.ones((1, w.size)) / total, e.T / limit[:, None]]) * start
    found = _energy_prices.prices(cost / cost.sum(), rows, most / start) * cost.sum() / np.append(total, limit)
    return _within(w, most, e, found, np.append(total, limit), kappa_of)


def limits_of_users(weights: np.ndarray, prices: Numbers, energy: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Checked prices `[T, K]` and limits `[K]`; K = 1 for prices of one user."""
    e, limit = _validate.real("(0, inf)", prices=prices), _validate.real("(0, inf]", energy=energy)
    if e.ndim > 2 or (e.ndim == 2 and len(e) != len(weights)):
        _validate.fail("prices", e.shape, f"[T] or [T, K], T = {len(weights)}")
    users = e.shape[1] if e.ndim == 2 else 1
    if limit.ndim > 1 or (limit.ndim == 1 and (e.ndim < 2 or limit.size != users)):
        _validate.fail("energy", energy, f"a number, or one per user of prices [T, K], {users}")
    by_round = e if e.ndim == 2 else np.broadcast_to(e, len(weights))[:, None]
    return by_round, np.broadcast_to(limit, users)


def dual_value(
    weights: np.ndarray, found: Allocation, budget: float, prices: Numbers = 1.0, energy: Numbers = 0
) -> float:
    """A lower bound on `noise_cost` without caps, by duality: `sum_t 2 sqrt(w_t p_t) - nu B - sum_k kappa_k E_k`.

    `p_t = nu + sum_k kappa_k e_tk` is the price of a round. An allocation that meets the bound is optimal.

    Args:
      weights: as in `allocate_energy`.
      found: an allocation; its multipliers are used.
      budget: B.
      prices: e_t, `[T]` or `[T, K]`.
      energy: E, or `[K]`.

    Examples:
      >>> weights = np.array([0.25, 1.0])
      >>> found = allocate(weights, 3.0)
      >>> print(dual_value(weights, found, 3.0), noise_cost(weights, found.squared_levels))
      0.75 0.75
    """
    nu, kappa = _validate.setting(Allocation, found=found).privacy_price, np.asarray(found.energy_price)
    of_energy = np.asarray(prices) @ kappa if kappa.ndim else kappa * np.asarray(prices)
    return float(2 * np.sqrt(weights * (nu + of_energy)).sum() - nu * budget - (kappa * energy).sum())


def _within(
    w: np.ndarray,
    most: np.ndarray,
    e: np.ndarray,
    prices: np.ndarray,
    limits: np.ndarray,
    kappa_of: Callable[[np.ndarray], Numbers],
) -> Allocation:
    """The levels that follow from the prices, which are raised a little if rounding makes levels exceed the limits."""
    rows = np.column_stack([np.ones_like(w), e])
    for raised in 4.0 ** np.arange(_ROUNDED):
        price = prices * (1 + 1e-15 * raised)
        levels = np.minimum(most, np.sqrt(w / (rows @ price)))
        if (levels @ rows <= limits).all():
            return Allocation(levels, float(price[0]), kappa_of(price[1:]))
    raise FloatingPointError("weights, prices and limits are too far apart for float64")

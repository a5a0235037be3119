"""Levels for rounds whose gains are not known in advance, in the model of `power_allocation`.

Liu and Simeone 2021 assume that all gains are known. Online, a round plans the rest of the run with the expected later
gains, uses the first level of its plan, and the next round plans again. If the expectations come true, the result is
the offline optimum, since the rest of an optimal plan is optimal. Otherwise the noise is larger.
"""

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers
from fedjax_priv.theory.wireless.energy_allocation import allocate_energy, limits_of_users
from fedjax_priv.theory.wireless.power_allocation import allocate, checked_rounds

_LEAST = 1e-12
"""A budget counts as spent if less than this fraction of it is left."""


def allocate_online(
    weights: np.ndarray,
    budget: float,
    prices: Numbers = 1.0,
    energy: Numbers = np.inf,
    *,
    expected_price: Numbers | None = None,
    caps: Numbers = np.inf,
    expected_cap: float = np.inf,
) -> np.ndarray:
    """The squared levels q_t, `[T]`, if a round knows its own price and cap, but not those of later rounds.

    Their `noise_cost` is at least that of `allocate_energy`, which knows all prices and caps.

    Args:
      weights: as in `allocate_energy`.
      budget: B, as in `allocate_energy`.
      prices: e_t, `[T]` or a number, such as L^2 / h_t^2; or `[T, K]`, one per user.
      energy: E, or `[K]`; unlimited if not given.
      expected_price: the price that a round expects of later rounds, such as L^2 E[1 / h^2], a number or `[K]`. If not
        given, the mean of `prices` over all rounds, per user.
      caps: Q_t, `[T]` or a number.
      expected_cap: the cap that a round expects of later rounds.

    Raises:
      ValueError: an argument outside its range.

    Examples:
      >>> print(allocate_online(np.array([0.25, 1.0]), 3.0).round(6))  # nothing is unknown
      [1. 2.]
      >>> print(allocate_online(np.ones(2), 9.0, np.array([1.0, 4.0]), 5.0, expected_price=1.0).round(6))
      [2.5   0.625]
    """
    w, most = checked_rounds(weights, caps)
    e, fuel = limits_of_users(w, prices, energy)
    expected = e.mean(0) if expected_price is None else _validate.real("(0, inf)", expected_price=expected_price)
    if expected.shape not in ((), fuel.shape):
        _validate.fail("expected_price", expected_price, f"a number, or one per user, {fuel.size}")
    later_cap = _validate.real("(0, inf]", expected_cap=expected_cap)
    left, fuel = _validate.number("(0, inf)", budget=budget), fuel.astype(np.float64)
    q, least = np.zeros(len(w)), (_LEAST * left, _LEAST * np.minimum(fuel, 1e300))
    for t in range(len(w)):
        if left <= least[0] or (fuel <= least[1]).any():
            break
        prices_now, caps_now = np.tile(e[t], (len(w) - t, 1)), np.full(len(w) - t, float(later_cap))
        prices_now[1:], caps_now[0] = expected, most[t]
        q[t] = _first(w[t:], left, prices_now, fuel, caps_now)
        left, fuel = left - q[t], fuel - e[t] * q[t]
    return q


def _first(w: np.ndarray, left: float, prices: np.ndarray, fuel: np.ndarray, caps: np.ndarray) -> float:
    """This round's level in the best plan."""
    limited = np.isfinite(fuel)
    if not limited.any():
        return float(allocate(w, left, caps).squared_levels[0])
    return float(allocate_energy(w, left, prices[:, limited], fuel[limited], caps).squared_levels[0])

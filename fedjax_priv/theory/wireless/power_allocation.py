"""Receiver noise as the privacy mechanism, at levels that vary by round (Liu and Simeone 2021, "Privacy for free").

Users send aligned gradients at level c_t and add no noise; q_t = c_t^2. Their paper protects a sample. Here a user is
replaced, whose clipped update moves the received signal by up to 2 c_t L. For a mu-smooth, lambda-PL loss, steps of
1 / mu and rho = 1 - lambda / mu, the gap to the optimum after T rounds is at most

  `rho^T (F(w_0) - F*) + d N0 / (2 mu K^2) sum_t rho^(T-t) / q_t`

if clipping never acts. Levels minimise the last sum under `sum_t q_t <= B` and `q_t <= Q_t`.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

from fedjax_priv.theory import _validate, gaussian
from fedjax_priv.theory._validate import Numbers

_HALVINGS = 80
_LEAST = float(np.finfo(np.float64).tiny)
_SMALLEST, _FARTHEST = -354.0, 354.0  # logarithms of sensitivities whose squares float64 holds


class Allocation(NamedTuple):
    """Squared levels by round, and the multipliers that certify them."""

    squared_levels: np.ndarray  # q_t, [T]
    privacy_price: float  # nu >= 0; 0: privacy budget is left
    energy_price: Any = 0.0  # kappa >= 0; 0: energy is left; [K] if each user has its own limit


def squared_sensitivity_budget(epsilon: float, delta: float) -> float:
    """Which sum of squared sensitivities over all rounds is allowed? s_max^2 with delta_G(eps; s_max) = delta.

    Args:
      epsilon: >= 0.
      delta: in (0, 1).

    Examples:
      >>> print(round(squared_sensitivity_budget(10.0, 1e-5), 6))
      4.001783
    """
    eps, target = _validate.number("[0, inf)", epsilon=epsilon), _validate.number("(0, 1)", delta=delta)
    excess = lambda log_s: float(gaussian.delta(eps, np.exp(log_s))) - target
    if excess(_SMALLEST) > 0:
        _validate.fail("delta", delta, "larger: float64 does not hold what it allows at this epsilon")
    if excess(_FARTHEST) < 0:
        _validate.fail("epsilon", epsilon, "smaller: float64 does not hold what it allows")
    return float(np.exp(2 * float(np.asarray(optimize.brentq(excess, _SMALLEST, _FARTHEST, xtol=1e-14)))))


def printed_sensitivity_budget(epsilon: float, delta: float) -> float:
    """The paper's smaller budget: 2 R_dp = 2 (sqrt(eps + v^2) - v)^2, with sqrt(pi) v e^(v^2) = 1 / delta.

    Examples:
      >>> print(round(printed_sensitivity_budget(10.0, 1e-5), 6))
      3.480853
    """
    eps, target = _validate.number("[0, inf)", epsilon=epsilon), _validate.number("(0, 1)", delta=delta)
    log_c = lambda v: 0.5 * np.log(np.pi) + np.log(v) + v**2 + np.log(target)
    v = float(np.asarray(optimize.brentq(log_c, 1e-12, 100.0, xtol=1e-14)))
    return 2 * float(np.sqrt(eps + v**2) - v) ** 2


def level_budget(epsilon: float, delta: float, *, clip: float, receiver_noise: float) -> float:
    """B, the largest allowed sum of squared levels: s_max^2 N0 / (4 L^2), for users that send in every round.

    Args:
      epsilon: as in `squared_sensitivity_budget`.
      delta: as in `squared_sensitivity_budget`.
      clip: L > 0.
      receiver_noise: N0 > 0, noise that the server cannot avoid.

    Examples:
      >>> print(round(level_budget(10.0, 1e-5, clip=1.0, receiver_noise=1.0), 6))
      1.000446
    """
    size, noise = _validate.real("(0, inf)", clip=clip), _validate.real("(0, inf)", receiver_noise=receiver_noise)
    return float(squared_sensitivity_budget(epsilon, delta) * noise / (4 * size**2))


def contraction_weights(rounds: int, contraction: float) -> np.ndarray:
    """The weight of each round's noise at the end: rho^(T-t), `[T]`; at least 2.2e-308, float64's least normal number.

    Args:
      rounds: T >= 1.
      contraction: rho = 1 - lambda / mu, in (0, 1].

    Examples:
      >>> print(contraction_weights(3, 0.5))
      [0.25 0.5  1.  ]
    """
    rho = _validate.real("(0, 1]", contraction=contraction)
    return np.maximum(rho ** np.arange(_validate.length(rounds=rounds) - 1.0, -1, -1), _LEAST)


def noise_cost(weights: np.ndarray, squared_levels: Numbers) -> float:
    """The sum to be minimised, `sum_t w_t / q_t`; infinite if a level is 0.

    Args:
      weights: w_t > 0, `[T]`.
      squared_levels: q_t >= 0, `[T]` or a number; or `[T, K]` for users that send one after another
        (`allocate_orthogonal`): then the sum is over all `w_t / q_tk`.

    Raises:
      ValueError: an argument outside its range, or of another shape.

    Examples:
      >>> print(noise_cost(np.array([0.25, 1.0]), np.array([0.5, 1.0])))
      1.5
      >>> print(noise_cost(np.array([0.25, 1.0]), np.array([[0.5, 1.0], [1.0, 1.0]])))
      2.75
    """
    w, q = checked_weights(weights), _validate.real("[0, inf)", squared_levels=squared_levels)
    if q.shape not in ((), w.shape) and (q.ndim != 2 or len(q) != w.size):
        _validate.fail("squared_levels", q.shape, f"a number, [T] or [T, K], T = {w.size}")
    with np.errstate(divide="ignore"):
        return float((w[:, None] / (q if q.ndim == 2 else q[..., None])).sum())


def allocate(weights: np.ndarray, budget: float, caps: Numbers = np.inf) -> Allocation:
    """The squared levels with the least noise: `q_t = min(Q_t, sqrt(w_t / nu))`, nu by bisection from `sum_t q_t = B`.

    Their sum does not exceed B. If the caps add up to at most B, the levels are the caps: users send at full power, and
    privacy is free.

    Args:
      weights: w_t > 0, `[T]`, from `contraction_weights`.
      budget: B > 0, from `level_budget`.
      caps: Q_t > 0, `[T]` or a number: the largest q_t that the weakest user's power allows, min_k h_k^2 P_k / L^2.

    Examples:
      >>> print(allocate(np.array([0.25, 1.0]), 3.0).squared_levels)
      [1. 2.]
      >>> print(allocate(np.array([0.25, 1.0]), 3.0, caps=1.2).squared_levels)  # privacy for free
      [1.2 1.2]
    """
    w, most = checked_rounds(weights, caps)
    total = _validate.number("(0, inf)", budget=budget)
    return allocate_checked(w, total, most)


def checked_weights(weights: np.ndarray) -> np.ndarray:
    """Weights `[T]`, in their range."""
    w = _validate.real("(0, inf)", weights=weights)
    if w.ndim != 1 or not w.size:
        raise ValueError(f"weights must be numbers [T], got shape {w.shape}")
    return w


def checked_rounds(weights: np.ndarray, caps: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Weights and caps `[T]`, in their ranges."""
    w, most = checked_weights(weights), _validate.real("(0, inf]", caps=caps)
    if most.shape not in ((), w.shape):
        raise ValueError(f"caps must be a number, or [T], T = {w.size}, got shape {most.shape}")
    return w, np.broadcast_to(most, w.shape)


def allocate_checked(w: np.ndarray, total: float, most: np.ndarray) -> Allocation:
    """`allocate` for checked arguments."""
    largest = np.sqrt(w.max())
    share = np.sqrt(w) / largest  # levels are in proportion to it: nu itself may be beyond float64

    def levels(size: float) -> np.ndarray:
        return np.minimum(most, total * (size * share))

    with np.errstate(over="ignore"):
        if most.sum() <= total:
            return Allocation(most.copy(), 0.0)
        low, high = 0.5 / share.sum(), 1 / share.min()
        for _ in range(_HALVINGS):
            middle = np.sqrt(low * high)
            low, high = (middle, high) if levels(middle).sum() <= total else (low, middle)
        return Allocation(levels(low), float(np.square(largest / low / total)))

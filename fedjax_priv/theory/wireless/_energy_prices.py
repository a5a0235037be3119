"""Lagrange multipliers (prices) of privacy and energy budgets, by a primal-dual interior-point method in float64.

Boyd and Vandenberghe, "Convex Optimization" (2004), 11.7. A step solves a system as large as the number of budgets,
however many rounds there are.
"""

from typing import NamedTuple

import numpy as np

_STEPS = 200
_GAP = 1e-13
"""The search ends at this duality gap, relative to the optimum."""
_CENTRED = 0.1
"""A step aims at this fraction of the remaining gap."""


class _Problem(NamedTuple):
    """The least `sum_t w_t / x_t` under `rows @ x <= 1` and `x <= room`."""

    weights: np.ndarray  # > 0, [T], with sum 1
    rows: np.ndarray  # >= 0, [m, T]
    room: np.ndarray  # [T]
    capped: np.ndarray  # [T], rounds that have a cap


class _Point(NamedTuple):
    """Levels and multipliers inside all limits; or a step from one such point to another."""

    x: np.ndarray  # [T]
    price: np.ndarray  # [m]
    cap_price: np.ndarray  # [T], 0 where there is no cap


def prices(weights: np.ndarray, rows: np.ndarray, caps: np.ndarray) -> np.ndarray:
    """Multipliers `[m]` of `rows @ x <= 1` where `sum_t w_t / x_t` is least; 0 of rows that are slack.

    Args:
      weights: w_t > 0, `[T]`, with sum 1.
      rows: >= 0, `[m, T]`, whose sums are at most 1, so that x = 1 is allowed.
      caps: of x, >= 1, `[T]`; infinite: none.
    """
    capped = np.isfinite(caps)
    of = _Problem(weights, rows, np.where(capped, caps, 2.0), capped)
    limits = len(rows) + capped.sum()
    x = np.full(weights.size, 0.5)
    at = _Point(x, 1 / limits / (1 - rows @ x), capped / limits / (of.room - x))
    for _ in range(_STEPS):
        gap = float(at.price @ (1 - rows @ at.x) + at.cap_price @ (of.room - at.x))
        off = np.abs(_conditions(of, at, 0.0).x * at.x).sum()
        if max(gap, off) < _GAP * (weights / at.x).sum():
            break
        target = _CENTRED * gap / limits
        found = _moved(of, at, _step(of, at, target), target)
        if found is None:
            break
        at = found
    return np.where(at.price < 1 - rows @ at.x, 0, at.price)


def _conditions(of: _Problem, at: _Point, target: float) -> _Point:
    """The optimality conditions, which should be 0: slopes by level, and multipliers times slacks minus the target."""
    slope = of.rows.T @ at.price + at.cap_price - of.weights / at.x**2
    return _Point(slope, at.price * (1 - of.rows @ at.x) - target, at.cap_price * (of.room - at.x) - target * of.capped)


def _step(of: _Problem, at: _Point, target: float) -> _Point:
    """Newton's step."""
    slope, off, cap_off = _conditions(of, at, target)
    slack, left = 1 - of.rows @ at.x, of.room - at.x
    curvature = 2 * of.weights / at.x**3 + at.cap_price / left
    pull = of.rows.T @ (off / slack) + cap_off / left - slope
    scaled = of.rows / curvature
    y = np.linalg.solve(np.diag(slack / at.price) + scaled @ of.rows.T, scaled @ pull)
    x = (pull - of.rows.T @ y) / curvature
    return _Point(x, y - off / slack, (at.cap_price * x - cap_off) / left)


def _moved(of: _Problem, at: _Point, step: _Point, target: float) -> _Point | None:
    """The next point inside, at which the conditions hold better; None where rounding leaves none."""
    pairs = [*zip(at, step, strict=True), (1 - of.rows @ at.x, -of.rows @ step.x)]
    pairs.append(((of.room - at.x)[of.capped], -step.x[of.capped]))
    shrinks = max(float((-by[here > 0] / here[here > 0]).max(initial=0)) for here, by in pairs)
    size = min(1.0, 0.99 / shrinks if shrinks else 1.0)
    wrong = lambda point: float(np.linalg.norm(np.concatenate(_conditions(of, point, target))))
    before = wrong(at)
    for _ in range(40):
        new = _Point(*(here + size * by for here, by in zip(at, step, strict=True)))
        inside = (of.rows @ new.x < 1).all() and (new.x < of.room)[of.capped].all()
        if inside and wrong(new) <= (1 - 0.01 * size) * before:
            return new
        size /= 2
    return None

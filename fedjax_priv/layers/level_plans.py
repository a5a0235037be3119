"""Levels for rounds whose gains are not known in advance: plan the rest of the run, use the first level, plan again."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from fedjax_priv import _validate
from fedjax_priv.layers.level_budget import within_budget
from fedjax_priv.layers.receive_level import Levels, level_of

_HALVINGS = 30
_OCTAVES = 100.0
"""A price is looked for in so many factors of two below its largest value."""
_KEPT_BACK = 2.0**-14
"""Part of the budgets that is not planned with, since `within_budget` rounds up, and float32 rounds."""


def planned_levels(
    weights: ArrayLike,
    budget: float | Array,
    *,
    max_norm: float | Array,
    energy: float | Array | None = None,
    expected_inverse: float | Array | None = None,
    at_most: Callable[[Array, Array], ArrayLike] | None = None,
    expected_cap: float | Array = jnp.inf,
) -> Levels:
    """The levels of `theory.wireless.allocate_online`: least noise under what is left of the budgets, round by round.

    `q_t = c_t^2` minimises `sum_s w_s / q_s` over this round and those to come, under `sum q_s <= B`,
    `sum_s e_s q_s <= E` and `q_s <= Q_s`. This round's gains are known, later ones are taken for their means.
    `within_budget` guards B. Without caps the squared levels of a channel that does not change are those of
    `theory.wireless.allocate_energy`. The model is Liu and Simeone's ("Privacy for free", 2021), who know all gains.

    Args:
      weights: w_t > 0, `[T]`, what noise of a round counts, as of `theory.wireless.contraction_weights`. Nobody sends
        after T rounds.
      budget: B > 0 of privacy, as of `theory.wireless.level_budget`; may be traced.
      max_norm: L, the norm updates were clipped to.
      energy: E > 0, what a client may send in all rounds at most, where it adds no noise; None: no limit. A round takes
        `e_t q_t`, `e_t = L^2 / min_k h_k^2`, of the weakest client.
      expected_inverse: the mean of `1 / min_k h_k^2`, which is what is planned for later rounds; needed with `energy`.
      at_most: `(round, gain [n]) -> c`, the level that power allows, such as `weakest(...)`; None: any.
      expected_cap: `Q_s > 0` of rounds to come, the square of a level.

    Returns:
      A `level` of `systems.wireless`.

    Raises:
      ValueError: an argument outside its range, or one of `energy` and `expected_inverse` without the other.

    Examples:
      >>> levels = planned_levels(np.array([0.25, 1.0]), budget=3.0, max_norm=1.0)
      >>> level, state = levels.apply(levels.init(), jnp.array(0), jnp.ones(5))
      >>> print(jnp.square(level).round(3), jnp.square(levels.apply(state, jnp.array(1), jnp.ones(5))[0]).round(3))
      1.0 2.0
    """
    _validate.each(_validate.positive, weights=weights)
    if np.ndim(weights) != 1 or np.size(weights) == 0:
        raise ValueError(f"weights must have shape [T], T >= 1, got {np.shape(weights)}")
    if (energy is None) != (expected_inverse is None):
        raise ValueError(
            f"expected_inverse must be given with energy {energy!r} and only then, got {expected_inverse!r}"
        )
    roots, index = jnp.asarray(np.sqrt(weights), jnp.float32), jnp.arange(np.size(weights))
    square = jnp.square(_validate.positive(max_norm=max_norm))
    later = 1.0 if expected_inverse is None else square * _validate.positive(expected_inverse=expected_inverse)
    limit = jnp.inf if energy is None else (1 - _KEPT_BACK) * _validate.positive(energy=energy)
    usable = jnp.asarray(_validate.positive(budget=budget), jnp.float32) * (1 - _KEPT_BACK)
    if at_most is not None:
        _validate.takes("round, gain", at_most=at_most)
    if isinstance(expected_cap, int | float) and not expected_cap > 0:
        raise ValueError(f"expected_cap must be a number > 0, got {expected_cap!r}")

    def apply(left: tuple, round: Int[Array, ""], gain: Float[Array, " n"]) -> tuple[Array, tuple]:
        price = square / jnp.square(gain.min()) if energy is not None else jnp.float32(1)
        cap = jnp.inf if at_most is None else jnp.square(level_of(at_most, round, gain))
        here, (budget_left, energy_left) = index == round, left
        q = _first(
            jnp.where(index >= round, roots, 0), jnp.where(here, cap, expected_cap), jnp.where(here, price, later),
            budget_left, energy_left, here, energy is not None,
        )  # fmt: skip
        return jnp.sqrt(q), (budget_left - q, energy_left - price * q)

    start = lambda: (usable, jnp.asarray(limit, jnp.float32))
    return within_budget(Levels(start, apply), budget)


def _first(
    roots: Float[Array, " T"], caps: Array, prices: Array, budget: Array, energy: Array, here: Array, limited: bool
) -> Float[Array, ""]:
    """Squared level of this round in the best plan, `min(Q_s, sqrt(w_s / (nu + kappa e_s)))`; 0 after the last."""

    def levels(kappa: Array, nu: Array) -> Float[Array, " T"]:
        price = nu + kappa * prices
        return jnp.where(roots > 0, jnp.minimum(caps, roots / jnp.sqrt(jnp.where(price > 0, price, 0))), 0)

    def privacy_price(kappa: Array) -> Array:
        return _price(lambda nu: levels(kappa, nu).sum() <= budget, jnp.square(roots.sum() / budget))

    def plan(kappa: Array) -> Float[Array, " T"]:
        return levels(kappa, privacy_price(kappa))

    kappa = jnp.float32(0)
    if limited:
        most = jnp.square((roots * jnp.sqrt(prices)).sum() / energy)
        kappa = _price(lambda kappa: (prices * plan(kappa)).sum() <= energy, most)
    return jnp.minimum(jnp.where(here, plan(kappa), 0).sum(), budget)


def _price(fits: Callable[[Array], Array], most: Array) -> Array:
    """The least price from 0 to `most` at which a plan fits, by bisection in its logarithm."""
    at = lambda octaves: most * jnp.exp2(-octaves)

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends  # octaves below `most`: it fits at low
        middle = (low + high) / 2
        good = fits(at(middle))
        return jnp.where(good, middle, low), jnp.where(good, high, middle)

    low, _ = jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.float32(0), jnp.float32(_OCTAVES)))
    return jnp.where(fits(jnp.float32(0)), 0, at(low))

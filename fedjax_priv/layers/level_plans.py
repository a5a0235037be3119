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
"""A level is looked for in so many factors of two below its largest value."""
_KEPT_BACK = 2.0**-14
"""Part of the budgets that is not planned with, since `within_budget` rounds up, and float32 rounds."""


def planned_levels(
    weights: ArrayLike,
    budget: float | Array,
    *,
    max_norm: float | Array,
    energy: ArrayLike | None = None,
    expected_inverse: ArrayLike | None = None,
    at_most: Callable[[Array, Array], ArrayLike] | None = None,
    expected_cap: float | Array = jnp.inf,
) -> Levels:
    """The levels of `theory.wireless.allocate_online`: least noise under what is left of the budgets, round by round.

    `q_t = c_t^2` minimises `sum_s w_s / q_s` over this round and those to come, under `sum q_s <= B`,
    `sum_s e_sk q_s <= E_k` and `q_s <= Q_s`. The gains of this round are known; for those of later rounds
    their means are taken. `within_budget` guards B. A round in which nobody can send takes nothing of what is left.
    Without caps the squared levels of a channel that does not change are those of `theory.wireless.allocate_energy`.
    The model is Liu and Simeone's ("Privacy for free", 2021), who know all gains.

    Args:
      weights: w_t > 0, `[T]`, what noise of a round counts, as of `theory.wireless.contraction_weights`. Nobody sends
        after T rounds.
      budget: B > 0 of privacy, as of `theory.wireless.level_budget`; may be traced.
      max_norm: L, the norm updates were clipped to.
      energy: E > 0, what a client may send in all rounds at most, where it adds no noise; None: no limit. `[n]`: of
        each client, for which a round takes `e_k q`, `e_k = L^2 / h_k^2`; all clients take part then. A number: as if
        one client were the weakest in every round, which is stricter.
      expected_inverse: the mean of `1 / h_k^2`, which is what is planned for later rounds, a number or `[n]`; of
        `1 / min_k h_k^2` where `energy` is a number. Needed with `energy`.
      at_most: `(round, gain [n]) -> c`, the level that power allows, such as `weakest(...)`; None: any.
      expected_cap: `Q_s > 0` of rounds to come, the square of a level.

    Returns:
      A `level` of `systems.wireless`.

    Raises:
      ValueError: an argument outside its range, one of `energy` and `expected_inverse` without the other, or (when a
        round is traced) limits of another number of clients.

    Examples:
      >>> levels = planned_levels(np.array([0.25, 1.0]), budget=3.0, max_norm=1.0)
      >>> level, state = levels.apply(levels.init(), jnp.array(0), jnp.ones(5))
      >>> print(jnp.square(level).round(3), jnp.square(levels.apply(state, jnp.array(1), jnp.ones(5))[0]).round(3))
      1.0 2.0
    """
    roots, order = _roots(weights)
    usable = jnp.asarray(_validate.positive(budget=budget), jnp.float32) * (1 - _KEPT_BACK)
    fuel, later = _of_energy(max_norm, energy, expected_inverse)
    if at_most is not None:
        _validate.takes("round, gain", at_most=at_most)
    expected_cap = _validate.above_zero(expected_cap=expected_cap)

    def apply(left: Array, round: Int[Array, ""], gain: Float[Array, " n"]) -> tuple[Array, Array]:
        used = jnp.append(1.0, jnp.square(max_norm) * _inverse(gain, fuel))
        here, ahead = jnp.where(order == round, roots, 0).sum(), jnp.where(order > round, roots, 0)
        cap = jnp.inf if at_most is None else jnp.square(level_of(at_most, round, gain))
        caps = jnp.asarray(cap, jnp.float32), jnp.asarray(expected_cap, jnp.float32)
        q = _first(here, ahead, *caps, used, jnp.append(1.0, later), left)
        return jnp.sqrt(q), jnp.where(q > 0, jnp.maximum(left - used * q, 0), left)  # NaN, or 0 * inf: takes nothing

    return within_budget(
        Levels(lambda: jnp.append(usable, fuel), apply, of_each=fuel.ndim > 0 and fuel.size > 0), budget
    )


def _roots(weights: ArrayLike) -> tuple[Float[Array, " T"], np.ndarray]:
    """Roots of the weights, the largest first, and the rounds that they are of."""
    _validate.each(_validate.positive, weights=weights)
    if np.ndim(weights) != 1 or np.size(weights) == 0:
        raise ValueError(f"weights must have shape [T], T >= 1, got {np.shape(weights)}")
    order = np.argsort(-np.asarray(weights), stable=True)
    return jnp.asarray(np.sqrt(weights)[order], jnp.float32), order


def _of_energy(
    max_norm: float | Array, energy: ArrayLike | None, expected_inverse: ArrayLike | None
) -> tuple[Array, Array]:
    """Limits that are planned with, `[0]`, `[]` or `[n]`, and what a later round takes of them."""
    if (energy is None) != (expected_inverse is None):
        raise ValueError(
            f"expected_inverse must be given with energy {energy!r} and only then, got {expected_inverse!r}"
        )
    square = jnp.square(_validate.positive(max_norm=max_norm))
    if energy is None or expected_inverse is None:
        return jnp.zeros(0), jnp.zeros(0)
    limits = _validate.array(_validate.positive, energy=energy)
    inverse = _validate.array(_validate.positive, expected_inverse=expected_inverse)
    if limits.ndim > 1 or inverse.shape not in ((), limits.shape):
        raise ValueError(
            f"energy must be a number or [n], and expected_inverse a number or as energy, got shapes {limits.shape} "
            f"and {inverse.shape}"
        )
    return (1 - _KEPT_BACK) * limits, square * jnp.broadcast_to(inverse, limits.shape)


def _inverse(gain: Float[Array, " n"], limits: Array) -> Array:
    """`1 / h^2` of those with a limit: of nobody `[0]`, of the weakest `[]`, or of each client `[n]`."""
    if limits.ndim == 0:
        gain = gain.min()
    elif limits.size and limits.shape != gain.shape:
        raise ValueError(f"energy must be one number per client of a round, {gain.size}, got {limits.size}")
    return 1 / jnp.square(gain[:0] if limits.shape == (0,) else gain)


def _first(
    root: Array, ahead: Float[Array, " T"], cap: Array, later_cap: Array, used: Array, later: Array, left: Array
) -> Float[Array, ""]:
    """Squared level of this round in the best plan; 0 after the last.

    Later rounds look alike, so all that matters of a plan is how much it leaves for the sum of their squared levels:
    S(x) after x, the least over limits k of `(left_k - used_k x) / later_k`. The price of a larger S is a bound nu on
    `w_s / q_s^2` of later rounds, and x is worth `w_t / x^2`: it rises until it is worth no more than S loses by it.
    """

    def too_much(x: Array) -> Array:
        rest = (left - used * x) / later
        k = jnp.argmin(rest)
        return root / x < _price_root(ahead, later_cap, jnp.maximum(rest[k], 0)) * jnp.sqrt(used[k] / later[k])

    return jnp.where(root > 0, _least(too_much, jnp.minimum(cap, (left / used).min())), 0)


def _price_root(roots: Float[Array, " T"], cap: Array, total: Array) -> Float[Array, ""]:
    """The root of the least nu with `sum_s min(cap, roots_s / sqrt(nu)) <= total`; but for some zeros, roots fall.

    Whichever of the largest are taken to be at the cap, the sum is at most what that says; one choice is right.
    """
    capped = jnp.append(0.0, jnp.cumsum((roots > 0).astype(jnp.float32)))
    others = jnp.append(jnp.cumsum(roots[::-1])[::-1], 0.0)
    room = total - jnp.where(capped > 0, capped * cap, 0)
    price = jnp.where(room > 0, others / jnp.where(room > 0, room, 1), jnp.inf)
    return jnp.where((others == 0) & (room >= 0), 0, price).min()


def _least(holds: Callable[[Array], Array], most: Array) -> Array:
    """The least number up to `most` from which on it holds, by bisection in its logarithm; `most` if it never does."""
    at = lambda octaves: most * jnp.exp2(-octaves)

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends  # octaves below `most`: it holds at low
        middle = (low + high) / 2
        found = holds(at(middle))
        return jnp.where(found, middle, low), jnp.where(found, high, middle)

    return at(jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.float32(0), jnp.float32(_OCTAVES)))[0])

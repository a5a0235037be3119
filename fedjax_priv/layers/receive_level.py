"""The level at which aligned uploads are received: one amplitude c_t for all clients of a round."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, absent


class Levels(NamedTuple):
    """Levels that depend on those of rounds before, such as what is left of a budget.

    Their state is part of the draw (`clients.at_levels`), so it moves on when a round fails too. c_t = 0: nobody sends.
    """

    init: Callable[[], PyTree]  # () -> state
    apply: Callable[..., tuple]  # (state, round, gain [n]) -> (c_t, state)
    of_each: bool = False  # the state keeps a number for each place of a cohort, which must be all clients then


Level = float | Array | Callable[[Int[Array, ""], Float[Array, " n"]], ArrayLike] | Levels
"""c_t > 0: a number, a function `(round, gain [n]) -> c_t` of all clients' gains, or `Levels`."""


def is_one(level: Level) -> bool:
    """Whether the level is known to be 1, so that a program can do without it."""
    return _validate.is_known_as(1, level)


def checked_level(level: Level) -> Level:
    """The level; NaN where it is a traced number out of range.

    Raises:
      ValueError: it is a number that is not > 0, or a function of other arguments.
    """
    if isinstance(level, Levels):
        return level
    if callable(level):
        _validate.takes("round, gain", level=level)
        return level
    return _validate.positive(level=level)


def level_of(level: Level, round: Array, gain: Float[Array, " n"]) -> Float[Array, ""]:
    """c_t of a round; NaN where it is not a finite number > 0, which fails the round.

    Raises:
      ValueError: (when the round is traced) a function returns more than a number.
    """
    c = jnp.asarray(level(round, gain) if callable(level) else level, jnp.float32)
    if c.ndim:
        raise ValueError(f"level must be one number for all clients of a round, got shape {c.shape}")
    return jnp.where((c > 0) & (c < jnp.inf), c, jnp.nan)


def level_of_cohort(level: Level, cohort: Cohort) -> Float[Array, ""]:
    """`level_of` the round that a whole cohort is in; of `Levels`, what the draw found.

    Raises:
      ValueError: the cohort has no level, as it was not drawn by `clients.at_levels`.
    """
    if not isinstance(level, Levels):
        return level_of(level, cohort.round[0], cohort.gain)
    if absent(cohort.level):
        raise ValueError("cohort must be drawn by clients.at_levels(draw, level) where level is Levels, got no level")
    return level_of(cohort.level[0], cohort.round[0], cohort.gain)


def weakest(
    power: ArrayLike, *, max_norm: float | Array, noise_variance: float | Array, num_params: int
) -> Callable[[Array, Array], Array]:
    """The level that every client can reach: `c_t = min_k h_k sqrt(P_k) / sqrt(L^2 + d sigma^2)`.

    The minimum is over all clients, not over those that take part: a level that depends on who takes part tells who
    does. At this level no power limit scales anybody down.

    Args:
      power: P_k / d, mean energy of a channel use, > 0, one for all clients or `[n]`: `N0 10^(x / 10)` for x dB.
      max_norm: L, the norm updates were clipped to.
      noise_variance: sigma^2, >= 0, of every client.
      num_params: d.

    Returns:
      A function for `level` of `align`, `over_the_air_mean` and `systems.wireless`.

    Raises:
      ValueError: an argument outside its range.

    Examples:
      >>> level = weakest(0.5, max_norm=1.0, noise_variance=0.1, num_params=80)
      >>> print(level(jnp.array(0), jnp.array([0.3, 2.0])).round(2))
      0.63
    """
    d = float(_validate.integer(num_params=num_params))  # JAX takes integers for int32
    limit = _validate.array(_validate.positive, power=power) * d
    variance = _validate.non_negative(noise_variance=noise_variance)
    energy = jnp.square(_validate.positive(max_norm=max_norm)) + d * variance
    return lambda round, gain: (gain * jnp.sqrt(limit)).min() / jnp.sqrt(energy)

"""A budget of privacy that levels over the air may not exceed, whatever they are: a filter inside the round."""

import functools
from typing import cast

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.layers.receive_level import Level, Levels, checked_level, level_of

_PARTS = 2**30
"""The budget is counted in so many parts, each round's share rounded up: their sum is exact."""
_UP = 1 + 2.0**-20
"""More than float32 can lose in a share."""


def within_budget(level: Level, budget: float | Array) -> Levels:
    """`level`, until the squared levels of all rounds would add up to more than a budget. From then on nobody sends.

    Where all noise is the receiver's, rounds are Gaussian mechanisms with `s_t^2 = 4 L^2 c_t^2 / N0`, which compose to
    one with the root of `sum s_t^2`, even if later levels depend on what was received before (Smith and Thakurta 2022,
    the filter of Gaussian differential privacy). With the budget of `theory.wireless.level_budget` all rounds together
    are (eps, delta)-private. Noise of users, truncation and coins only hide more.

    Args:
      level: what a round asks for, as of `align`.
      budget: B > 0, `s_max^2 N0 / (4 L^2)`; may be traced.

    Returns:
      A `level` of `systems.wireless`. Rounds after the end fail, and the model stays as it is. So does a round for
      which `level` is no finite number > 0, which costs nothing and ends nothing.

    Raises:
      ValueError: `level` is none, or `budget` is not > 0.

    Examples:
      >>> levels = within_budget(lambda round, gain: gain.min(), budget=1.0)
      >>> state = levels.init()
      >>> for gain in (0.5, 0.8, 0.9, 0.1):
      ...     level, state = levels.apply(state, jnp.array(0), jnp.array([gain, 2.0]))
      ...     print(level)
      0.5
      0.8
      0.0
      0.0
    """
    total, inner = jnp.asarray(_validate.positive(budget=budget), jnp.float32), remembering(level)

    def apply(state: tuple, round: Int[Array, ""], gain: Float[Array, " n"]) -> tuple[Array, tuple]:
        c, memory = inner.apply(state[0], round, gain)
        share = jnp.square(c) / total
        parts = jnp.ceil(jnp.where(share < 2, share, 2) * (_PARTS * _UP)).astype(jnp.uint32)
        left, asked = state[1], jnp.isfinite(c) & (c > 0)
        sent = asked & (parts <= left)
        return jnp.where(sent, c, 0), (memory, jnp.where(sent, left - parts, jnp.where(asked, 0, left)))

    return Levels(lambda: (inner.init(), jnp.uint32(_PARTS)), apply, inner.of_each)


def remembering(level: Level) -> Levels:
    """Any level as `Levels`; NaN where it is not a finite number > 0.

    Raises:
      ValueError: as `checked_level`.
    """
    known = checked_level(level)
    if isinstance(known, Levels):
        return known
    of = functools.partial(level_of, cast(Level, known))

    def apply(state: PyTree, round: Int[Array, ""], gain: Float[Array, " n"]) -> tuple[Array, PyTree]:
        return of(round, gain), state

    return Levels(tuple, apply)

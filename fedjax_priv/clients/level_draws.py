"""Draws with levels over the air; the draw's state holds what levels remember of earlier rounds."""

import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Draw, Key
from fedjax_priv.clients.cohort_rows import Counts, only_those
from fedjax_priv.layers.receive_level import Levels


def at_levels(draw: Draw, levels: Levels) -> Draw:
    """The same draw, with a level for each round in `Cohort.level`, chosen from the gains that clients know.

    Nobody takes part in a round with level 0 or NaN, and everybody knows this.

    Args:
      draw: who takes part, and the gains.
      levels: such as `layers.within_budget(...)` or `layers.planned_levels(...)`.

    Raises:
      ValueError: `draw` is no `Draw`, `levels` are no `Levels`, or (when a round is traced) `levels` has a limit per
        client, but a round has only some of the clients.

    Examples:
      >>> from fedjax_priv.layers import within_budget
      >>> draw = at_levels(everyone(), within_budget(0.6, budget=1.0))  # two rounds of 0.36
      >>> state = draw.init(jax.random.key(0), 3)
      >>> for round in range(3):
      ...     cohort, state = draw.apply(jax.random.key(0), state, jnp.array(round), jnp.ones(3, int))
      ...     print(cohort.level[0], cohort.selected)
      0.6 [ True  True  True]
      0.6 [ True  True  True]
      0.0 [False False False]
    """
    _validate.part(Draw, "clients.everyone()", draw=draw)
    _validate.part(Levels, "layers.within_budget(0.6, budget=1.0)", levels=levels)
    _validate.one_of((True, False), of_each=levels.of_each)

    def apply(key: Key, state: tuple, round: Int[Array, ""], count: Counts) -> tuple[Cohort, tuple]:
        who, drawn = draw.apply(key, state[0], round, count)
        if levels.of_each and who.gain.size != count.size:
            raise ValueError(
                f"levels must keep one limit for all where a round is of {who.gain.size} of {count.size} clients, "
                "got a limit for each, such as planned_levels(energy=[n])"
            )
        level, spent = levels.apply(state[1], round, who.gain)
        who = only_those(who, level > 0)
        return who._replace(level=jnp.broadcast_to(level, who.gain.shape)), (drawn, spent)

    def init(key: Key, n: int) -> tuple[PyTree, PyTree]:
        return draw.init(key, n), levels.init()

    measures = draw.measures
    told = None if measures is None else lambda who, state: measures(who, state[0])
    return draw._replace(init=init, apply=apply, measures=told)

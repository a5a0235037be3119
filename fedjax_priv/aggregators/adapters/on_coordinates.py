"""Rules on rows that hold a few coordinates, the same ones in all."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Aggregator, Key, Received


def on_coordinates(rule: Aggregator, num_params: int) -> Aggregator:
    """`rule` on rows `(value [g, K], position [g, K])` that share their positions; zero at all others.

    Positions from d on are no coordinates. What the rule keeps by coordinate, arrays `[d]` of its state, is restricted
    to those of the round, and zero elsewhere after it (centered clipping).

    Args:
      rule: on rows `[g, K]`.
      num_params: coordinates of the direction, d.

    Raises:
      ValueError: `num_params` is no integer from 1.
    """
    _validate.integer(num_params=num_params)

    def apply(key: Key, state: PyTree, received: Received) -> tuple[Array, PyTree]:
        value, position = received.value
        here = position[0]
        kept = lambda a: a.shape == (num_params,)
        restrict = lambda a: a.at[here].get(mode="fill", fill_value=0) if kept(a) else a
        spread = lambda new, old: jnp.zeros_like(old).at[here].set(new, mode="drop") if kept(old) else new
        direction, new = rule.apply(key, jax.tree.map(restrict, state), received._replace(value=value))
        return jnp.zeros(num_params).at[here].set(direction, mode="drop"), jax.tree.map(spread, new, state)

    return Aggregator(rule.init, apply, rule.most_byzantine)

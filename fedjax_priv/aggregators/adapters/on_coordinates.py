"""Rules on sparse rows that all hold the same coordinates."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Aggregator, Key, Received


def on_coordinates(rule: Aggregator, num_params: int) -> Aggregator:
    """`rule` on rows `(value [g, K], position [g, K])` with the same positions in every row; zero elsewhere.

    Positions >= d are ignored, and rules of this package that draw coordinates draw none of them; one `from_host` sees
    zeros there. State of the rule per coordinate, arrays `[d]`, is restricted to the round's coordinates and is zero
    elsewhere after the round (centered clipping).

    Args:
      rule: on rows `[g, K]`.
      num_params: coordinates of the direction, d.

    Raises:
      ValueError: `num_params` is not an integer >= 1; or, when a round is traced, rows are an array.

    Examples:
      >>> position = jnp.array([[1, 3]] * 3)
      >>> value = jnp.array([[1.0, 2.0], [3.0, 2.0], [9.0, 2.0]])
      >>> rows = fedjax_priv.base.Received((value, position), jnp.ones(3, int))
      >>> rule = on_coordinates(coordinate_median(), num_params=4)
      >>> print(jax.jit(rule.apply)(fedjax_priv.keys.keyless(), rule.init(4), rows)[0])
      [0. 3. 0. 2.]
    """
    _validate.part(Aggregator, "aggregators.mean()", rule=rule)
    _validate.integer(num_params=num_params)

    def apply(key: Key, state: PyTree, received: Received) -> tuple[Array, PyTree]:
        if not isinstance(received.value, tuple):
            got = _validate.made(received.value)
            raise ValueError(f"rows must be (value, position), as layers.conspar makes them, got {got}")
        value, position = received.value
        here = position[0]
        kept = lambda a: a.shape == (num_params,)
        restrict = lambda a: a.at[here].get(mode="fill", fill_value=0) if kept(a) else a
        spread = lambda new, old: jnp.zeros_like(old).at[here].set(new, mode="drop") if kept(old) else new
        there = received._replace(value=value, used=here < num_params)
        direction, new = rule.apply(key, jax.tree.map(restrict, state), there)
        return jnp.zeros(num_params).at[here].set(direction, mode="drop"), jax.tree.map(spread, new, state)

    return rule._replace(apply=apply, equivariant=False, in_two=None)

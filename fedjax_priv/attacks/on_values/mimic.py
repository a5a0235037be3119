"""Mimicking: all Byzantine clients send the update of one honest client, which then counts too much."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv import _validate
from fedjax_priv.attacks.attack_layers import Attack
from fedjax_priv.attacks.honest_statistics import honest_row
from fedjax_priv.base import Key


def mimic(client: int = 0) -> Attack:
    """The update of one honest client (Karimireddy et al. 2022); 0 if there is none.

    The authors choose the client that is furthest in the direction in which honest updates vary most, found in the
    first rounds, and keep to it. Here you name it, so the attack is weaker where the choice matters.

    Args:
      client: number of the copied client among the honest ones, from 0; the last one if there are fewer.

    Raises:
      ValueError: `client` is not an integer >= 0.

    Examples:
      >>> updates = jnp.array([[1.0], [3.0], [0.0]])
      >>> honest = jnp.array([True, True, False])
      >>> print(jax.jit(mimic(client=1))(jax.random.key(0), updates, honest, ~honest))
      [[3.]]
    """
    _validate.integer(at_least=0, client=client)

    def attack(
        key: Key, updates: Float[Array, "n d"], honest: Bool[Array, " n"], byzantine: Bool[Array, " n"]
    ) -> Float[Array, "1 d"]:
        del key
        row = honest_row(honest, jnp.int32(client))
        return jnp.where(honest[row], updates[row], jnp.zeros((), updates.dtype))[None]

    return attack

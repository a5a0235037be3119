"""What the draw of a stack says of its rounds: how many clients they have, and how many of all are Byzantine."""

import jax
import jax.numpy as jnp

from fedjax_priv.base import Draw
from fedjax_priv.base.byzantine_clients import how_many
from fedjax_priv.systems.composition.stack import Stack


def settled(stack: Stack) -> Stack:
    """`stack` with `cohort_size` and `num_byzantine` of its `cohort`, where they are not given themselves."""
    draw = stack.cohort
    if draw is None:
        return stack
    size = clients_of(draw, stack.num_clients) if stack.cohort_size is None else stack.cohort_size
    return stack._replace(cohort_size=size, num_byzantine=stack.num_byzantine or how_many(draw.byzantine))


def clients_of(draw: Draw, num_clients: int) -> int:
    """Clients in a cohort, those that are not selected included."""

    def cohort(key: jax.Array, round: jax.Array, count: jax.Array) -> jax.Array:
        return draw.apply(key, draw.init(key, num_clients), round, count)[0].client

    count = jax.ShapeDtypeStruct((num_clients,), jnp.int32)
    return jax.eval_shape(cohort, jax.random.key(0), jnp.int32(0), count).size

"""A secure sum compared with the plain sum of the same updates."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fedjax_priv.base import Algorithm, ClientData, Key, Local
from fedjax_priv.clients import everyone
from fedjax_priv.keys import named


def updates(local: Local, key: Key, params: PyTree, clients: ClientData) -> Float[Array, "n d"]:
    """What all clients send after one local training.

    Two systems are two programs, and a matrix product may round otherwise in each: `audit.sending` gives both the same.
    """

    def train(clients: ClientData) -> Array:
        draw, n = everyone(), clients.count.shape[0]
        who, _ = draw.apply(named(key, "cohort"), draw.init(named(key, "cohort"), n), jnp.int32(0), clients.count)
        return local.apply(named(key, "local"), local.init(n, params), params, clients, who)[0]

    return jax.jit(train)(clients)


def largest_difference(
    secure: Algorithm, clear: Algorithm, key: Key, params: PyTree, clients: ClientData, rounds: int
) -> float:
    """Largest |secure direction - plain direction| over rounds and coordinates.

    Both systems, whose clients send given updates, take every round from the same state, so they sum the same quantized
    updates of the same survivors. Sums below 2**24 grid points are exact in float32, so a difference of one point would
    show. NaN if every round failed.
    """

    def run(clients: ClientData) -> Array:
        own = clear.init(key, params, clients).layers["mask"]

        def compare(state: PyTree, _: None) -> tuple[PyTree, Array]:
            after, info = secure.step(key, state, clients)
            plain = clear.step(key, state._replace(layers={**state.layers, "mask": own}), clients)[1]
            return after, jnp.where(info.status == 0, jnp.abs(info.direction - plain.direction).max(), jnp.nan)

        return jnp.nanmax(jax.lax.scan(compare, secure.init(key, params, clients), length=rounds)[1])

    return float(jax.jit(run)(clients))

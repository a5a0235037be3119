"""Truncated channel inversion: clients whose channel is too weak in a round are silent."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from fedjax_priv.base import Cohort, Draw
from fedjax_priv.clients import only_if
from fedjax_priv.layers.noise_gaussian import of_clients


def truncated(draw: Draw, least: ArrayLike) -> Draw:
    """`draw` without the clients whose squared gain is below `least`, one number or `[n]`, or is 0."""
    least = jnp.asarray(least, jnp.float32)

    def enough(who: Cohort) -> Array:
        square = jnp.square(who.gain)
        margin = square - of_clients(least, who)
        return jnp.where((margin == 0) & (square > 0), 1.0, margin)

    return only_if(draw, enough)

"""The mean of the rows that are there."""

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv.base import Aggregator, Key, Received
from fedjax_priv.rows import rows_where


def mean() -> Aggregator:
    """`[g, d] -> [d]`, over the rows with uploads; zero where there are none. One row is its own mean."""

    def apply(key: Key, state: tuple, received: Received) -> tuple[Array, tuple]:
        del key
        present = received.count > 0
        total = rows_where(present, received.value, jnp.zeros((), received.value.dtype)).sum(0)
        return total / jnp.maximum(present.sum(), 1).astype(total.dtype), state

    return Aggregator(lambda d: (), apply, lambda num_rows: 0)

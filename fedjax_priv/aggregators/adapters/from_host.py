"""A rule of another library, called on the host."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fedjax_priv.base import Aggregator, Key, Received


def from_host(function: Callable[[np.ndarray], Any]) -> Aggregator:
    """A rule in NumPy, or whatever computes on the host, inside a round: `from_host(byzfl.TrMean(3))`.

    It is for comparison: each round waits for the host, and members of a batch, as in a sweep, are called one by one. A
    direction that is not finite fails the round, as any rule's does; where no row is there it is zero, and nothing is
    called. Nobody knows how many Byzantine rows it bears, so a system refuses none; `from_host(f)._replace(
    most_byzantine=lambda num_rows: 3)` says so.

    Args:
      function: from the rows that are there, a float32 array `[m, d]` of its own, m >= 1, to `[d]`. The same rows must
        give the same direction, since nothing says how often it is called, and it must not call JAX.

    Raises:
      jax.errors.JaxRuntimeError: when the program runs, `function` raises, or returns another shape.
    """

    def call(value: Array, count: Array) -> np.ndarray:
        rows = np.asarray(value)[np.asarray(count) > 0]
        direction = np.asarray(function(rows) if len(rows) else np.zeros(rows.shape[1]), np.float32)
        if direction.shape != rows.shape[1:]:
            raise ValueError(f"function must return an array of shape {rows.shape[1:]}, got {direction.shape}")
        return direction

    def apply(key: Key, state: tuple, received: Received) -> tuple[Array, tuple]:
        del key
        shape = jax.ShapeDtypeStruct(received.value.shape[1:], jnp.float32)
        return jax.pure_callback(call, shape, *received, vmap_method="sequential"), state

    return Aggregator(lambda d: (), apply)

"""Weights: a client multiplies its update before it is summed."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer, Received
from fedjax_priv.layers.stack import stateless


def scale(factor: float | Array = 1.0) -> Layer:
    """`x -> factor * beta_i * x`, so that the sum is a weighted one.

    With `factor = 1 / (1 - dropout)` the expected sum over survivors is `sum_i beta_i x_i` over all clients (SecAgg and
    SparseSecAgg, eq. 16 with p = 1).
    """
    _validate.positive(factor=factor)
    factor = _validate.or_nan(factor, above=0)

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d"]:
        del key
        return x * (cohort.weight * factor)[:, None]

    return stateless(encode)


def weighted_mean() -> Layer:
    """The mean of the updates that arrive, weighted by beta_i: `sum beta_i x_i / sum beta_i` over survivors.

    The weights travel as one more coordinate, so that a secure sum hides them too.
    """

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d+1"]:
        del key
        weight = cohort.weight[:, None]
        return jnp.concatenate([weight * x, weight], axis=1)

    def decode(received: Received) -> Received:
        total = received.value[:, -1:]
        mean = jnp.where(total > 0, received.value[:, :-1] / jnp.where(total > 0, total, 1), 0)
        return Received(mean, received.count)

    return stateless(encode, decode)

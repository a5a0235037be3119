"""Losses of examples: `(params, examples [b, ...]) -> [b]`."""

from collections.abc import Callable

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from fedjax_priv.base import Model


def softmax_cross_entropy(model: Model) -> Callable[[PyTree, tuple[Array, Array]], Float[Array, " b"]]:
    """Cross entropy in nats of a classifier: examples are `(x [b, ...], y [b])` with integer labels.

    A label without a class costs NaN, which fails the round.
    """

    def loss(params: PyTree, examples: tuple[Array, Array]) -> Float[Array, " b"]:
        x, y = examples
        return cross_entropy(model.apply(params, x), y)

    return loss


def cross_entropy(logits: Float[Array, "*b classes"], y: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """Softmax cross entropy in nats; NaN for a label without a class."""
    cost = optax.losses.softmax_cross_entropy_with_integer_labels(logits, y)
    return jnp.where((y >= 0) & (y < logits.shape[-1]), cost, jnp.nan)

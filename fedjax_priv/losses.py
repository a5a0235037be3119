"""Loss functions: what clients minimise."""

from collections.abc import Callable

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from fedjax_priv.base import Model

Loss = Callable[[PyTree, PyTree], Array]
"""`(params, examples [b, ...]) -> [b]`, the loss of each example."""


def softmax_cross_entropy(model: Model) -> Loss:
    """Cross entropy of a classifier, in nats. Examples are `(x [b, ...], y [b])` with integer labels.

    A label outside `0, ..., classes - 1` gives NaN, and the round fails.
    """

    def loss(params: PyTree, examples: tuple[Array, Array]) -> Float[Array, " b"]:
        x, y = examples
        return cross_entropy(model.apply(params, x), y)

    return loss


def cross_entropy(logits: Float[Array, "*b classes"], y: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """Softmax cross entropy in nats; NaN for a label outside `0, ..., classes - 1`."""
    cost = optax.losses.softmax_cross_entropy_with_integer_labels(logits, y)
    return jnp.where((y >= 0) & (y < logits.shape[-1]), cost, jnp.nan)

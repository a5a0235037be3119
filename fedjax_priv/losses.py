"""Loss functions: what clients minimise."""

from collections.abc import Callable

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Model

Loss = Callable[[PyTree, PyTree], Array]
"""`(params, examples [b, ...]) -> [b]`, the loss of each example."""


def softmax_cross_entropy(model: Model) -> Loss:
    """Cross entropy of a classifier, in nats. Examples are `(x [b, ...], y [b])` with integer labels.

    A label outside `0, ..., classes - 1` gives NaN, and the round fails.

    Raises:
      ValueError: `model` is not a `Model`.
    """
    _validate.part(Model, "models.from_flax(module, shape)", model=model)

    def loss(params: PyTree, examples: tuple[Array, Array]) -> Float[Array, " b"]:
        x, y = examples
        return cross_entropy(model.apply(params, x), y)

    return loss


def sequence_cross_entropy(model: Model) -> Loss:
    """Cross entropy of a model of sequences, in nats per token: the mean over an example's labels but -1.

    Examples are `(x [b, length], y [b, length])` with integer labels, such as the tokens that follow; a label of -1
    counts for nothing, and an example without others has loss 0. Any other label outside `0, ..., classes - 1` gives
    NaN, and the round fails. `model.apply(params, x)` is `[b, length, classes]`.
    """

    def loss(params: PyTree, examples: tuple[Array, Array]) -> Float[Array, " b"]:
        x, y = examples
        each, there = token_losses(model.apply(params, x), y)
        return each.sum(-1) / jnp.maximum(there.sum(-1), 1)

    return loss


def token_losses(
    logits: Float[Array, "*b classes"], y: Int[Array, "*b"]
) -> tuple[Float[Array, "*b"], Float[Array, "*b"]]:
    """Cross entropy of each token in nats, 0 where its label is -1, and whether it counts, 0 or 1."""
    there = y != -1
    return jnp.where(there, cross_entropy(logits, jnp.where(there, y, 0)), 0), there.astype(jnp.float32)


def cross_entropy(logits: Float[Array, "*b classes"], y: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """Softmax cross entropy in nats; NaN for a label outside `0, ..., classes - 1`."""
    cost = optax.losses.softmax_cross_entropy_with_integer_labels(logits, y)
    return jnp.where((y >= 0) & (y < logits.shape[-1]), cost, jnp.nan)

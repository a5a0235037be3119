"""Losses of examples: `(params, examples [b, ...]) -> [b]`."""

from collections.abc import Callable

import optax
from jaxtyping import Array, Float, PyTree

from fedjax_priv.base import Model


def softmax_cross_entropy(model: Model) -> Callable[[PyTree, tuple[Array, Array]], Float[Array, " b"]]:
    """Cross entropy in nats of a classifier: examples are `(x [b, ...], y [b])` with integer labels."""

    def loss(params: PyTree, examples: tuple[Array, Array]) -> Float[Array, " b"]:
        x, y = examples
        return optax.losses.softmax_cross_entropy_with_integer_labels(model.apply(params, x), y)

    return loss

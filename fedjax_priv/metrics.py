"""Metrics: what to look at along a training curve."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Model
from fedjax_priv.losses import cross_entropy


def accuracy(
    model: Model, x: ArrayLike, y: ArrayLike, *, batch_size: int = 500
) -> Callable[[PyTree], dict[str, Float[Array, ""]]]:
    """Fraction of examples classified correctly, and mean cross entropy in nats.

    Args:
      model: a classifier.
      x: examples `[k, ...]`.
      y: integer labels `[k]`.
      batch_size: examples the model sees at once, to limit memory; it need not divide k.

    Returns:
      `evaluate(params) -> {"accuracy": [], "test_loss": []}`, which can be jitted.

    Raises:
      ValueError: there are no examples, the number of labels differs, or labels are not integers.
    """
    _validate.integer(batch_size=batch_size)
    x, y = jnp.asarray(x), jnp.asarray(y)
    if y.ndim != 1 or not y.size or x.shape[0] != y.size:
        raise ValueError(f"y must have one label per row of x, shape ({x.shape[0]},), at least one, got {y.shape}")
    if not jnp.issubdtype(y.dtype, jnp.integer):
        raise ValueError(f"y must be integers, got {y.dtype}")

    def evaluate(params: PyTree) -> dict[str, Array]:
        def score(example: tuple[Array, Array]) -> tuple[Array, Array]:
            row, label = example
            logits = model.apply(params, row[None])[0]
            loss = cross_entropy(logits, label)
            return (logits.argmax() == label).astype(jnp.float32), loss

        correct, loss = jax.lax.map(score, (x, y), batch_size=batch_size)
        return {"accuracy": correct.mean(), "test_loss": loss.mean()}

    return evaluate

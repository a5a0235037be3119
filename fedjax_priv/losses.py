"""Loss functions: what clients minimise."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Integer, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Model

Loss = Callable[[PyTree, PyTree], Array]
"""`(params, examples [b, ...]) -> [b]`, the loss of each example."""


_EXAMPLE = "losses.softmax_cross_entropy(model)"


class RandomLoss(NamedTuple):
    """A loss that draws, as one with dropout does; `clients.local_sgd` gives each example of each step its own key.

    Examples:
      >>> def noisy(params, examples, keys):
      ...     return jax.vmap(lambda x, key: (params - x + 0.1 * jax.random.normal(key)) ** 2)(examples, keys)
      >>> print(RandomLoss(noisy).function(1.0, jnp.zeros(2), jax.random.split(jax.random.key(0), 2)).shape)
      (2,)
    """

    function: Callable[[PyTree, PyTree, Array], Array]  # (params, examples [b, ...], keys [b]) -> [b]

    def __call__(self, *args: Any) -> Any:
        """Refuses a call without keys."""
        raise ValueError("loss must not draw here: only clients.local_sgd gives a RandomLoss its keys")


def softmax_cross_entropy(model: Model) -> Loss | RandomLoss:
    """Cross entropy of a classifier, in nats. Examples are `(x [b, ...], y [b])` with integer labels.

    It is a `RandomLoss` if the model draws in training. A label outside `0, ..., classes - 1` gives NaN, and the round
    fails.

    Raises:
      ValueError: `model` is not a `Model`.

    Examples:
      >>> loss = softmax_cross_entropy(fedjax_priv.base.Model(init=None, apply=lambda params, x: x @ params))
      >>> examples = (np.ones((1, 2), np.float32), np.array([3]))
      >>> print(jax.jit(loss)(np.zeros((2, 4), np.float32), examples).round(4))  # log 4
      [1.3863]
    """
    _validate.part(Model, "models.from_flax(module, shape)", model=model)

    def of_classes(logits: Array, y: Array) -> Float[Array, " b"]:
        if y.ndim != 1:
            raise ValueError(
                f"labels y must have shape [b], got {y.shape}; of sequences: losses.sequence_cross_entropy"
            )
        return cross_entropy(logits, y)

    return _of_logits(model, of_classes)


def sequence_cross_entropy(model: Model) -> Loss | RandomLoss:
    """Cross entropy of a model of sequences, in nats per token: the mean over an example's labels but -1.

    Examples are `(x [b, length], y [b, length])` with integer labels, such as the tokens that follow; a label of -1
    counts for nothing, and an example without others has loss 0. Any other label outside `0, ..., classes - 1` gives
    NaN, and the round fails. `model.apply(params, x)` is `[b, length, classes]`. The loss is a `RandomLoss` if
    the model draws in training.

    Raises:
      ValueError: `model` is not a `Model`.

    Examples:
      >>> model = fedjax_priv.base.Model(init=None, apply=lambda params, x: params[x])  # logits of what follows a token
      >>> tokens = (np.array([[0, 1, 2]]), np.array([[1, 2, -1]]))
      >>> print(jax.jit(sequence_cross_entropy(model))(np.zeros((4, 4), np.float32), tokens).round(4))  # log 4
      [1.3863]
    """
    _validate.part(Model, "models.transformer(...)", model=model)

    def of_sequences(logits: Array, y: Array) -> Float[Array, " b"]:
        if y.ndim != 2:
            raise ValueError(f"labels y must have shape [b, length], got {y.shape}")
        each, there = token_losses(logits, y)
        return each.sum(-1) / jnp.maximum(there.sum(-1), 1)

    return _of_logits(model, of_sequences)


def checked_loss(loss: Any) -> Any:
    """A loss given to local training; one called `apply`, probably that of a model, is told so if it fails.

    Raises:
      ValueError: `loss` is no function of two arguments, such as a `Model`.

    Examples:
      >>> loss = lambda params, examples: (params - examples) ** 2
      >>> checked_loss(loss) is loss
      True
    """
    if isinstance(loss, RandomLoss):
        _validate.takes("params, examples, keys", **{"loss.function": loss.function})
    _validate.function(2, _EXAMPLE, loss=loss)
    if getattr(loss, "__name__", None) != "apply":
        return loss
    message = f"loss must return the loss of each example, such as {_EXAMPLE}, got apply, probably that of a model"

    def guarded(params: PyTree, examples: PyTree) -> Array:
        try:
            losses = loss(params, examples)
        except Exception as error:
            raise ValueError(message) from error
        if jnp.ndim(losses) != 1:
            raise ValueError(message)
        return losses

    return guarded


def _of_logits(model: Model, cost: Callable[[Array, Array], Array]) -> Loss | RandomLoss:
    """The cost of a model's logits, from examples `(x, y)`."""

    def loss(apply: Callable[..., Array], params: PyTree, examples: PyTree, *keys: Array) -> Array:
        x, y = _pair(examples)
        logits = _logits(model, apply, params, x, *keys)
        if jnp.shape(logits)[:-1] != y.shape:
            raise ValueError(f"model must return logits of shape {y.shape} + (classes,), got {jnp.shape(logits)}")
        return cost(logits, y)

    if (train := model.train) is not None:
        return RandomLoss(lambda params, examples, keys: loss(train, params, examples, keys))
    return lambda params, examples: loss(model.apply, params, examples)


def _pair(examples: PyTree) -> tuple[Any, Array]:
    """`(x, y)` with integer labels."""
    if not isinstance(examples, tuple | list) or len(examples) != 2:
        raise ValueError(
            f"examples must be a pair (x, y), got {_validate.made(examples)}; write your own loss for others"
        )
    x, y = examples
    if not jnp.issubdtype(y.dtype, jnp.integer):
        raise ValueError(f"labels y must be integers, got {y.dtype}")
    return x, as_labels(y)


def _logits(model: Model, apply: Callable[..., Array], params: PyTree, *args: Array) -> Array:
    """`apply(params, ...)`; if it fails with parameters that the model does not have, it says so."""
    try:
        return apply(params, *args)
    except Exception as error:
        shapes = lambda tree: {jax.tree_util.keystr(path): a.shape for path, a in jax.tree.leaves_with_path(tree)}
        own, got = shapes(jax.eval_shape(model.init, jax.random.key(0))), shapes(params)
        if other := sorted(name for name in own.keys() | got.keys() if own.get(name) != got.get(name)):
            name = other[0]
            raise ValueError(
                f"params must be those of the model of the loss, with params{name} of shape {own.get(name)}, "
                f"got {got.get(name)}"
            ) from error
        raise


def token_losses(
    logits: Float[Array, "*b classes"], y: Integer[Array, "*b"]
) -> tuple[Float[Array, "*b"], Float[Array, "*b"]]:
    """Cross entropy of each token in nats, 0 where its label is -1, and whether it counts, 0 or 1.

    Examples:
      >>> loss, counts = jax.jit(token_losses)(np.zeros((2, 4), np.float32), np.array([3, -1]))
      >>> print(loss.round(4), counts)
      [1.3863 0.    ] [1. 0.]
    """
    y = as_labels(y)
    there = y != -1
    return jnp.where(there, cross_entropy(logits, jnp.where(there, y, 0)), 0), there.astype(jnp.float32)


def cross_entropy(logits: Float[Array, "*b classes"], y: Integer[Array, "*b"]) -> Float[Array, "*b"]:
    """Softmax cross entropy in nats; NaN for a label outside `0, ..., classes - 1`.

    Examples:
      >>> print(jax.jit(cross_entropy)(np.zeros((2, 4), np.float32), np.array([3, 7])).round(4))  # there is no label 7
      [1.3863    nan]
    """
    y = as_labels(y)
    cost = optax.losses.softmax_cross_entropy_with_integer_labels(logits, y)
    return jnp.where((y >= 0) & (y < logits.shape[-1]), cost, jnp.nan)


def as_labels(y: Integer[Array, "*b"]) -> Integer[Array, "*b"]:
    """Labels as int32: a byte holds neither -1 nor 256 classes, and JAX would compare it with what it does hold.

    Examples:
      >>> print(jax.jit(as_labels)(np.array([0, 255], np.uint8)) - 1)
      [ -1 254]
    """
    return jnp.asarray(y).astype(jnp.int32)

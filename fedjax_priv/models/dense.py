"""Softmax regression and fully connected ReLU networks."""

from collections.abc import Sequence

import flax.linen as nn
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.base import Model
from fedjax_priv.models.flax_model import from_flax, sizes


class _Dense(nn.Module):
    """Dense layers with ReLU between them."""

    sizes: tuple[int, ...]

    @nn.compact
    def __call__(self, x: Float[Array, "b ..."]) -> Float[Array, "b classes"]:
        x = x.reshape(x.shape[0], -1)
        *hidden, classes = self.sizes
        for size in hidden:
            x = nn.relu(nn.Dense(size)(x))
        return nn.Dense(classes)(x)


def softmax_regression(input_shape: tuple[int, ...], num_classes: int) -> Model:
    """One linear layer: d = (inputs + 1) * classes.

    Examples:
      >>> num_params(jax.eval_shape(softmax_regression((28, 28, 1), 10).init, jax.random.key(0)))
      7850
    """
    return mlp(input_shape, num_classes, hidden=())


def mlp(input_shape: tuple[int, ...], num_classes: int, *, hidden: Sequence[int] = (200,)) -> Model:
    """Fully connected network with a ReLU after each hidden layer.

    With one layer of 200 on 28x28 images d = 159,010; with two, the "2NN" of McMahan et al. 2017, d = 199,210.

    Args:
      input_shape: of one example.
      num_classes: outputs.
      hidden: units of each hidden layer.

    Raises:
      ValueError: `num_classes` or a number of units is not an integer >= 1.

    Examples:
      >>> num_params(jax.eval_shape(mlp((28, 28, 1), 10).init, jax.random.key(0)))
      159010
    """
    sizes(hidden=hidden)
    _validate.integer(num_classes=num_classes)
    return from_flax(_Dense((*hidden, num_classes)), input_shape)

"""Networks of papers on robust learning, with PyTorch's initial parameters, on images normalised as theirs.

Parameters of a layer are uniform between +-1/sqrt(inputs of a unit), kernels and biases alike.
"""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fedjax_priv import losses, models
from fedjax_priv.base import Model
from fedjax_priv.losses import Loss
from fedjax_priv.models.client_convolution import conv
from fedjax_priv.models.cnn import max_pool

SHAPES = {"mnist": (28, 28, 1), "digits": (8, 8, 1)}
MEAN, DEVIATION = 0.1307, 0.3081
"""Of MNIST's pixels in [0, 1], as both sources take them."""


class BucketingNetwork(nn.Module):
    """That of Karimireddy et al. 2022: 3x3 convolutions of 32 and 64, one 2x2 max-pool, dense 128 (1,199,882)."""

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"], train: bool = False) -> Float[Array, "b 10"]:
        """Logits; in training channels and units are dropped, with the key "dropout"."""
        x = _convolved(nn.relu(_convolved(x, 32, 3)), 64, 3)
        x = nn.Dropout(0.25, broadcast_dims=(1, 2), deterministic=not train)(max_pool(x))
        x = nn.relu(dense(x.reshape(len(x), -1), 128))
        return dense(nn.Dropout(0.5, deterministic=not train)(x), 10)


class ByzFLNetwork(nn.Module):
    """ByzFL's `cnn_mnist`: convolutions of 20 and 50, each max-pooled, and dense 500 (431,080)."""

    kernel: int = 5

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b 10"]:
        """Logits."""
        for channels in (20, 50):
            x = nn.relu(max_pool(_convolved(x, channels, self.kernel)))
        return dense(nn.relu(dense(x.reshape(len(x), -1), 500)), 10)


def byzfl(dataset: str) -> Model:
    """On digits with 2x2 kernels: 5x5 ones would leave nothing to pool."""
    return _normalised(models.from_flax(ByzFLNetwork(5 if dataset == "mnist" else 2), SHAPES[dataset]))


def bucketing(dataset: str) -> Model:
    """Without dropout, as it is evaluated."""
    return _normalised(models.from_flax(BucketingNetwork(), SHAPES[dataset]))


def bucketing_loss() -> Loss:
    """With one dropout mask for each place in a batch, the same for all workers, steps and seeds.

    The authors' code restores the generators' states after every worker, so on their GPU it trains like this.
    """
    frozen = {"dropout": jax.random.key(0)}

    def apply(params: PyTree, x: Array) -> Array:
        return BucketingNetwork().apply({"params": params}, _pixels(x), train=True, rngs=frozen)  # pyright: ignore[reportReturnType]

    loss = losses.softmax_cross_entropy(Model(init=BucketingNetwork().init, apply=apply))
    assert not isinstance(loss, losses.RandomLoss)
    return loss


def _pixels(x: Array) -> Array:
    return (x - MEAN) / DEVIATION


def _normalised(model: Model) -> Model:
    return model._replace(apply=lambda params, x: model.apply(params, _pixels(x)))


def _convolved(x: Array, channels: int, kernel: int) -> Array:
    window, bias = (kernel, kernel), _uniform(kernel * kernel * x.shape[-1])
    return nn.Conv(
        channels, window, padding="VALID", conv_general_dilated=conv, kernel_init=bias, bias_init=bias
    )(x)  # fmt: skip


def dense(x: Array, size: int) -> Array:
    """A dense layer inside a module, as PyTorch starts it."""
    drawn = _uniform(x.shape[-1])
    return nn.Dense(size, kernel_init=drawn, bias_init=drawn)(x)


def _uniform(inputs: int) -> Callable[..., Array]:
    bound = inputs**-0.5
    return lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, -bound, bound)

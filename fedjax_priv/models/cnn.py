"""Convolutional networks: the one of McMahan et al. 2017 for 28x28 images, and a small one for CIFAR-10."""

from typing import Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.base import Model
from fedjax_priv.models.client_convolution import conv
from fedjax_priv.models.flax_model import from_flax, image_sizes


def max_pool(x: Float[Array, "b h w c"]) -> Float[Array, "b h//2 w//2 c"]:
    """The largest value of each 2x2 square; an odd last row or column is left out.

    It takes maxima over every second column, then row: the gradient of XLA's windowed reduction is twenty times slower,
    that of a reshape and a reduction four times.
    """
    _, h, w, _ = x.shape
    columns = jnp.maximum(x[:, :, : w // 2 * 2 : 2], x[:, :, 1::2])
    return jnp.maximum(columns[:, : h // 2 * 2 : 2], columns[:, 1::2])


class _Convolutional(nn.Module):
    """Convolutions, each followed by a 2x2 max-pool and a ReLU, then one hidden dense layer."""

    channels: tuple[int, ...]
    kernel: int
    padding: str
    hidden: int
    classes: int

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b classes"]:
        for channels in self.channels:
            x = nn.Conv(channels, (self.kernel, self.kernel), padding=self.padding, conv_general_dilated=conv)(x)
            x = nn.relu(max_pool(x))  # same as pooling after the ReLU, on a quarter of the values
        x = nn.relu(nn.Dense(self.hidden)(x.reshape(x.shape[0], -1)))
        return nn.Dense(self.classes)(x)


def mcmahan_cnn(
    input_shape: tuple[int, int, int] = (28, 28, 1),
    num_classes: int = 10,
    *,
    padding: Literal["SAME", "VALID"] = "SAME",
) -> Model:
    """Two 5x5 convolutions of 32 and 64 channels, each 2x2 max-pooled, and a dense layer of 512 (McMahan et al. 2017).

    On 28x28x1 with 10 classes d = 1,663,370, as in the paper; with `padding="VALID"` d = 582,026.

    Raises:
      ValueError: an argument is out of range; images have no three sizes, or are smaller than 4x4, or 16x16 without
        padding, so that nothing is left of them.

    Examples:
      >>> num_params(jax.eval_shape(mcmahan_cnn().init, jax.random.key(0)))
      1663370
    """
    _validate.one_of(("SAME", "VALID"), padding=padding)
    _validate.integer(num_classes=num_classes)
    image_sizes(input_shape, least=4 if padding == "SAME" else 16)
    return from_flax(_Convolutional((32, 64), 5, padding, 512, num_classes), input_shape)


def cifar_cnn(num_classes: int = 10) -> Model:
    """Three 3x3 convolutions of 48, 64 and 64 channels on 32x32x3, each 2x2 max-pooled, and a dense layer of 96.

    d = 165,354, or 0.66 MB as float32: the size of a dense upload in the SparseSecAgg experiments on CIFAR-10.

    Raises:
      ValueError: `num_classes` is not an integer >= 1.

    Examples:
      >>> num_params(jax.eval_shape(cifar_cnn().init, jax.random.key(0)))
      165354
    """
    _validate.integer(num_classes=num_classes)
    return from_flax(_Convolutional((48, 64, 64), 3, "SAME", 96, num_classes), (32, 32, 3))

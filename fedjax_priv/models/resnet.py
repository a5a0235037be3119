"""ResNet-20 for 32x32 images (He et al. 2016, section 4.2), with group normalisation.

Batch normalisation keeps running statistics, client state that is neither averaged, clipped nor masked, and makes the
gradient of an example depend on the rest of its batch. Group normalisation (Wu and He 2018) uses one example at a time,
so a client's update is a function of its parameters and samples alone. Both have as many scales and shifts, so the
parameter count is the usual one.
"""

import functools

import flax.linen as nn
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.base import Model
from fedjax_priv.models.client_convolution import conv
from fedjax_priv.models.flax_model import from_flax, image_sizes

_conv = functools.partial(nn.Conv, use_bias=False, conv_general_dilated=conv)
_norm = functools.partial(nn.GroupNorm, num_groups=8)


class _Block(nn.Module):
    """Two 3x3 convolutions and a shortcut, 1x1 where the shape changes."""

    channels: int
    stride: int

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h2 w2 channels"]:
        strides = (self.stride, self.stride)
        y = nn.relu(_norm()(_conv(self.channels, (3, 3), strides)(x)))
        y = _norm()(_conv(self.channels, (3, 3))(y))
        if x.shape != y.shape:
            x = _norm()(_conv(self.channels, (1, 1), strides)(x))
        return nn.relu(x + y)


class _ResNet20(nn.Module):
    """Three stages of three blocks, with 16, 32 and 64 channels."""

    classes: int

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b classes"]:
        x = nn.relu(_norm()(_conv(16, (3, 3))(x)))
        for channels, first_stride in ((16, 1), (32, 2), (64, 2)):
            for stride in (first_stride, 1, 1):
                x = _Block(channels, stride)(x)
        return nn.Dense(self.classes)(x.mean(axis=(1, 2)))


def resnet20(input_shape: tuple[int, int, int] = (32, 32, 3), num_classes: int = 10) -> Model:
    """ResNet-20 with 1x1 convolutions in the shortcuts: d = 272,474 on 32x32x3 with 10 classes.

    Raises:
      ValueError: a size is not an integer >= 1, or images have no three sizes.

    Examples:
      >>> num_params(jax.eval_shape(resnet20().init, jax.random.key(0)))
      272474
    """
    _validate.integer(num_classes=num_classes)
    image_sizes(input_shape)
    return from_flax(_ResNet20(num_classes), input_shape)

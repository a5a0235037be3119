"""Classifiers as `Model(init, apply)`.

- `dense`: softmax regression and fully connected networks.
- `cnn`: convolutional networks for 28x28 images and for CIFAR-10.
- `resnet`: ResNet-20 with group normalisation.
- `causal_transformer`: a small causal transformer over tokens.
- `low_rank`: low-rank adapters as the parameters of a model.
- `pixels`: a model of uint8 images.
- `flax_model`, `nnx_model`, `equinox_model`: a `Model` from a module of flax linen, flax nnx or equinox.
- `client_convolution`: a convolution that stays fast when each client has its own kernel; `patch_convolution`: as one
  product, for GPUs; `tiled_convolution`: few channels, on a CPU.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.models.causal_transformer import transformer
    from fedjax_priv.models.cnn import cifar_cnn, mcmahan_cnn
    from fedjax_priv.models.dense import mlp, softmax_regression
    from fedjax_priv.models.equinox_model import from_equinox
    from fedjax_priv.models.flax_model import from_flax, num_params
    from fedjax_priv.models.low_rank import lora, merge_lora
    from fedjax_priv.models.nnx_model import from_nnx
    from fedjax_priv.models.pixels import from_pixels
    from fedjax_priv.models.resnet import resnet20
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "cifar_cnn", "from_equinox", "from_flax", "from_nnx", "from_pixels", "lora", "mcmahan_cnn", "merge_lora", "mlp",
    "num_params", "resnet20", "softmax_regression", "transformer",
]  # fmt: skip

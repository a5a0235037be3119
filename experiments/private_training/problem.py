"""Networks of the printed rows, and samples as clients: each has one."""

import math
from typing import Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from experiments.private_training.printed import POPULATION
from experiments.private_training.scattering import SIZE, features
from experiments.problem import Task, load
from fedjax_priv import data, models
from fedjax_priv.base import ClientData, Key, Model
from fedjax_priv.models.client_convolution import conv


class Setting(NamedTuple):
    """Who trains what."""

    dataset: Literal["mnist", "digits"] = "mnist"
    network: Literal["cnn", "softmax", "scattering"] = "cnn"  # the last: softmax regression on scattering features
    start: Literal["torch", "keras"] = "torch"  # whose initial parameters, and whose scale of pixels

    @property
    def population(self) -> int:
        """Training samples."""
        return {"mnist": POPULATION, "digits": 1437}[self.dataset]


class Problem(NamedTuple):
    """Samples of all clients on the host, and the test set."""

    pool: data.Pool
    x_test: np.ndarray
    y_test: np.ndarray


def problem(setting: Setting) -> Problem:
    """MNIST is read from `$TFDS_DATA_DIR`, see `fedjax_priv.data.mnist`."""
    whole = load(Task(setting.dataset))
    x, x_test = (scaled(images, setting) for images in (whole.x_train, whole.x_test))
    clients = ClientData((x[:, None], whole.y_train[:, None]), jnp.ones(len(x), jnp.int32))
    return Problem(data.pool_of(clients), x_test, whole.y_test)


def scaled(images: np.ndarray, setting: Setting) -> np.ndarray:
    """Scattering features, or pixels: those of Opacus have MNIST's mean 0 and deviation 1, others are in [0, 1]."""
    if setting.network == "scattering":
        return features(images, setting.dataset)
    return (images - np.float32(0.1307)) / np.float32(0.3081) if setting.start == "torch" else images


def model_of(setting: Setting) -> Model:
    shape = {"mnist": (28, 28, 1), "digits": (8, 8, 1)}[setting.dataset]
    if setting.network == "scattering":
        return models.softmax_regression((SIZE,), 10)
    if setting.network == "softmax":
        return models.softmax_regression(shape, 10)
    return models.from_flax(Network(setting.start), shape)


class Network(nn.Module):
    """Two convolutions, each max-pooled over 2x2 squares in steps of 1, and two dense layers: 26,010 parameters."""

    start: Literal["torch", "keras"]

    @nn.compact
    def __call__(self, x: Float[Array, "b 28 28 1"]) -> Float[Array, "b 10"]:
        """Logits."""
        x = max_pool(nn.relu(nn.Conv(16, (8, 8), 2, padding=3, conv_general_dilated=conv, **self.starts(8 * 8))(x)))
        x = max_pool(
            nn.relu(nn.Conv(32, (4, 4), 2, padding=0, conv_general_dilated=conv, **self.starts(4 * 4 * 16))(x))
        )
        x = nn.relu(nn.Dense(32, **self.starts(512))(x.reshape(len(x), -1)))
        return nn.Dense(10, **self.starts(32))(x)

    def starts(self, inputs: int) -> dict[str, Any]:
        """Uniform up to `1 / sqrt(inputs)` in PyTorch; Glorot's, and biases of 0, in Keras."""
        if self.start == "keras":
            return {"kernel_init": nn.initializers.glorot_uniform()}
        bound = 1 / math.sqrt(inputs)

        def uniform(key: Key, shape: tuple[int, ...], dtype: type = jnp.float32) -> Array:
            return jax.random.uniform(key, shape, dtype, -bound, bound)

        return {"kernel_init": uniform, "bias_init": uniform}


def max_pool(x: Float[Array, "b h w c"]) -> Float[Array, "b h-1 w-1 c"]:
    """The largest value of each 2x2 square, squares one step apart."""
    x = jnp.maximum(x[:, 1:], x[:, :-1])
    return jnp.maximum(x[:, :, 1:], x[:, :, :-1])

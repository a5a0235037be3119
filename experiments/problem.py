"""The data set of an experiment and the model that is trained on it."""

from typing import Literal, NamedTuple

import jax
import numpy as np

from fedjax_priv import data, models
from fedjax_priv.base import Model

_LOADERS = {"digits": data.digits, "mnist": data.mnist, "cifar10": data.cifar10}
_SHAPES = {"digits": (8, 8, 1), "mnist": (28, 28, 1), "cifar10": (32, 32, 3)}
_TRAINED = {"digits": 1_437, "mnist": 60_000, "cifar10": 50_000}


class Task(NamedTuple):
    """Classification of images into 10 classes."""

    dataset: Literal["digits", "mnist", "cifar10"]
    model: str = "softmax"  # or "cnn", "resnet20", or "mlp64": a network with one hidden layer of 64
    samples: int | None = None  # training samples that are used, the first ones; None: all
    pool: int = 1  # pixels are means over squares of so many by so many

    def __str__(self) -> str:
        pixels = f", {self.pool} x {self.pool} pixels averaged" if self.pool > 1 else ""
        samples = f", {self.samples:,} training samples" if self.samples else ""
        return f"{self.dataset}{pixels}{samples}; {self.model}, d = {num_params(self):,}"


def load(task: Task) -> data.Dataset:
    """The data set; MNIST and CIFAR-10 are read from `$TFDS_DATA_DIR`, see `fedjax_priv.data.mnist`."""
    whole = _LOADERS[task.dataset]()
    return whole._replace(
        x_train=pooled(whole.x_train[: task.samples], task.pool),
        y_train=whole.y_train[: task.samples],
        x_test=pooled(whole.x_test, task.pool),
    )


def pooled(images: np.ndarray, size: int) -> np.ndarray:
    """Means over squares of `size` by `size` pixels; images `[k, h, w, c]`."""
    if size == 1:
        return images
    k, height, width, channels = images.shape
    return images.reshape(k, height // size, size, width // size, size, channels).mean((2, 4))


def model_of(task: Task) -> Model:
    """The model that a task names.

    Raises:
      ValueError: there is no model of that name.
    """
    side, _, channels = _SHAPES[task.dataset]
    shape = (side // task.pool, side // task.pool, channels)
    if task.model == "softmax":
        return models.mlp(shape, 10, hidden=())
    if task.model.startswith("mlp"):
        return models.mlp(shape, 10, hidden=(int(task.model.removeprefix("mlp")),))
    if task.model == "resnet20":
        return models.resnet20(shape)
    if task.model == "cnn":
        return models.cifar_cnn() if task.dataset == "cifar10" else models.mcmahan_cnn(shape)
    raise ValueError(f"model must be softmax, cnn, resnet20 or mlp and a width; got {task.model}")


def num_params(task: Task) -> int:
    """d, the parameters of the model."""
    return models.num_params(jax.eval_shape(model_of(task).init, jax.random.key(0)))


def num_samples(task: Task) -> int:
    """Training samples that are used; the data set is not read."""
    return len(range(_TRAINED[task.dataset])[: task.samples])

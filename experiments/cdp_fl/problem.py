"""Data, devices and models of the CDP-FL paper's figures."""

import os
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fedjax_priv import data, losses, models
from fedjax_priv.base import ClientData, Key, Model


class Setting(NamedTuple):
    """Who trains what. The defaults are the paper's, or our choice where it says nothing."""

    model: Literal["logistic", "network"]
    dataset: Literal["adult", "digits"] = "adult"
    num_devices: int = 16
    num_selected: int = 10  # r, devices of a round
    num_train: int = 2440  # m, training samples of a device
    num_test: int = 306
    delta: float = 1e-4
    repeats: int = 5

    @property
    def rate(self) -> float:
        """The learning rate; 2/L in the convex problem."""
        return {"logistic": 4.0, "network": 0.3}[self.model]

    @property
    def clip(self) -> float:
        """G, the norm each sample's gradient is clipped to."""
        return {"logistic": 1.0, "network": 20.0}[self.model]

    @property
    def majority(self) -> float:
        """Accuracy of the most frequent class; at that, nothing was learned."""
        return {"adult": 0.761, "digits": 0.5}[self.dataset]

    @property
    def lipschitz(self) -> float | None:
        """The Lipschitz constant of a step, clipping included; unknown for a clipped network."""
        return {"logistic": 1.0, "network": None}[self.model]


class Problem(NamedTuple):
    """Training samples by device, and all devices' test samples, equally many from each."""

    data: ClientData
    x_test: np.ndarray
    y_test: np.ndarray


def problem(setting: Setting, seed: int) -> Problem:
    """All rows are shuffled once and dealt to the devices; rows left over at a device are for validation, and not used.

    Adult is read from the folder `$ADULT_DIR`.
    """
    x, y = rows(setting)
    order = np.random.default_rng(seed).permutation(len(x))
    own = order[: len(x) // setting.num_devices * setting.num_devices].reshape(setting.num_devices, -1)
    train, test = own[:, : setting.num_train], own[:, -setting.num_test :].ravel()
    count = jnp.full(setting.num_devices, setting.num_train, jnp.int32)
    return Problem(ClientData((x[train], y[train]), count), x[test], y[test])


def rows(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """All samples, with a constant 1 after their features; of norm 1 for the convex problem."""
    whole = data.adult(os.environ["ADULT_DIR"]) if setting.dataset == "adult" else data.digits()
    x = np.concatenate([whole.x_train, whole.x_test]).reshape(-1, num_features(setting) - 1)
    y = np.concatenate([whole.y_train, whole.y_test])
    x = np.pad(x, ((0, 0), (0, 1)), constant_values=1)
    if setting.model == "logistic":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return x, y if setting.dataset == "adult" else (y >= 5).astype(np.int32)


def num_features(setting: Setting) -> int:
    """The constant included."""
    return {"adult": 109, "digits": 65}[setting.dataset]


def model_of(setting: Setting) -> Model:
    """Softmax regression from zero, whose bias is the constant's weight, or a ReLU network from He's start."""
    shape = (num_features(setting),)
    if setting.model == "logistic":
        return models.from_flax(nn.Dense(2, use_bias=False, kernel_init=nn.initializers.zeros), shape)
    lecun = models.mlp(shape, 2, hidden=(64, 32))
    return lecun._replace(init=lambda key: jax.tree.map(lambda w: np.sqrt(2, dtype=np.float32) * w, lecun.init(key)))


def loss_of(setting: Setting) -> Callable[[PyTree, Any], Array]:
    return losses.softmax_cross_entropy(model_of(setting))


def evaluation(setting: Setting, problem: Problem) -> Callable[[PyTree], dict[str, Array]]:
    """Accuracy, the mean over the devices' test sets; loss and norm of its gradient, unclipped, on all training data.

    Devices are evaluated one after another, which fits caches better.
    """
    own = jax.value_and_grad(lambda params, examples: loss_of(setting)(params, examples).mean())
    train = jax.tree.map(jnp.asarray, problem.data.examples)
    x_test, y_test = jnp.asarray(problem.x_test), jnp.asarray(problem.y_test)

    def evaluate(params: PyTree) -> dict[str, Array]:
        loss, gradient = jax.tree.map(lambda a: a.mean(0), jax.lax.map(lambda rows: own(params, rows), train))
        right = model_of(setting).apply(params, x_test).argmax(1) == y_test
        squares = [jnp.square(leaf).sum() for leaf in jax.tree.leaves(gradient)]
        return {"accuracy": right.mean(), "training_loss": loss, "gradient_norm": jnp.sqrt(sum(squares))}

    return evaluate


def start(setting: Setting) -> Callable[[Key], PyTree]:
    return model_of(setting).init

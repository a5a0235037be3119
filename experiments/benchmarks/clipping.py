"""Milliseconds of the clipped gradient of a batch: ours, not clipped, `vmap` of samples, NumPy and Opacus.

python -m experiments.benchmarks.clipping --out results/clipping.json [--repeats 30]

The batch has 256 samples. The convolutional network is that of Tramer and Boneh 2021 for MNIST ("Differentially private
learning needs better features"). Ours gets the dense networks as flax modules and in plain JAX; their gradients are
written out in NumPy. Opacus, where it is installed, clips in its ghost mode.
"""

import importlib
import importlib.util
import itertools
import statistics
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import script
from fedjax_priv import clients, losses, models

BATCH, INPUTS, CLASSES, CLIP = 256, 784, 10, 1.0
NETWORKS = {"MLP 784-200-10": (200,), "softmax regression": (), "CNN": None}
"""Sizes of hidden layers; None: convolutions."""
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(BATCH, INPUTS)).astype(np.float32), RNG.integers(0, CLASSES, BATCH)
Ways = dict[str, Callable[[], object]]


class Convolutions(nn.Module):
    """Two convolutions with tanh, each max-pooled over 2x2 squares in steps of 1, and two dense layers."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Logits of images `[b, 784]`."""
        x = x.reshape(-1, 28, 28, 1)
        x = _max_pool(jnp.tanh(nn.Conv(16, (8, 8), 2, padding=3)(x)))
        x = _max_pool(jnp.tanh(nn.Conv(32, (4, 4), 2, padding="VALID")(x)))
        return nn.Dense(CLASSES)(jnp.tanh(nn.Dense(32)(x.reshape(len(x), -1))))


def _max_pool(x: jax.Array) -> jax.Array:
    x = jnp.maximum(x[:, 1:], x[:, :-1])
    return jnp.maximum(x[:, :, 1:], x[:, :, :-1])


def by_jax(hidden: tuple[int, ...] | None) -> Ways:
    if hidden is None:
        model = models.from_flax(Convolutions(), (INPUTS,))
    else:
        model = models.mlp((INPUTS,), CLASSES, hidden=hidden)
    loss, params = losses.softmax_cross_entropy(model), model.init(jax.random.key(0))
    batch, valid = (jnp.asarray(X), jnp.asarray(Y)), jnp.ones(BATCH, bool)
    ours = lambda loss: jax.jit(lambda params, batch: clients.clipped_gradient(loss, CLIP)(params, batch, valid))
    ways = {"fedjax_priv": ours(loss)}
    if hidden is not None:
        ways["fedjax_priv, plain JAX"] = ours(_plain_loss)
    ways["not clipped"] = jax.jit(jax.grad(lambda params, batch: loss(params, batch).sum()))
    ways["vmap of samples"] = jax.jit(_each_sample(loss))
    return {name: lambda f=f: f(params, batch) for name, f in ways.items()}


def _plain_loss(params: dict, examples: tuple) -> jax.Array:
    x, y = examples
    *hidden, last = (params[name] for name in sorted(params))
    for layer in hidden:
        x = jax.nn.relu(x @ layer["kernel"] + layer["bias"])
    return losses.cross_entropy(x @ last["kernel"] + last["bias"], y)


def _each_sample(loss: Callable) -> Callable:
    """The usual way: a gradient of every sample, then clip."""

    def clipped(params: dict, batch: tuple) -> dict:
        one = jax.grad(lambda params, x, y: loss(params, (x[None], y[None]))[0])
        grads = jax.vmap(one, (None, 0, 0))(params, *batch)
        norm = jnp.sqrt(sum(jnp.square(g).reshape(BATCH, -1).sum(1) for g in jax.tree.leaves(grads)))
        return jax.tree.map(lambda g: jnp.tensordot(jnp.minimum(1, CLIP / norm), g, 1), grads)

    return clipped


def by_numpy(hidden: tuple[int, ...]) -> Callable[[], object]:
    sizes = (INPUTS, *hidden, CLASSES)
    weights = [RNG.normal(size=pair).astype(np.float32) / 20 for pair in itertools.pairwise(sizes)]

    def clipped() -> list:
        inputs = [X]
        for w in weights[:-1]:
            inputs.append(np.maximum(inputs[-1] @ w, 0))
        scores = inputs[-1] @ weights[-1]
        chance = np.exp(scores - scores.max(1, keepdims=True))
        slopes = [chance / chance.sum(1, keepdims=True)]
        slopes[0][np.arange(BATCH), Y] -= 1
        for w, a in zip(weights[:0:-1], inputs[:0:-1], strict=True):
            slopes.insert(0, (slopes[0] @ w.T) * (a > 0))
        squares = sum((1 + (a**2).sum(1)) * (e**2).sum(1) for a, e in zip(inputs, slopes, strict=True))
        factor = np.minimum(1, CLIP / np.sqrt(squares))[:, None]
        return [(a.T @ (e * factor), (e * factor).sum(0)) for a, e in zip(inputs, slopes, strict=True)]

    return clipped


def by_opacus(hidden: tuple[int, ...] | None) -> Callable[[], object]:
    torch = importlib.import_module("torch")
    ghost = importlib.import_module("opacus.grad_sample").GradSampleModuleFastGradientClipping
    stepper = importlib.import_module("opacus.optimizers").DPOptimizerFastGradientClipping
    losses_of = importlib.import_module("opacus.utils.fast_gradient_clipping_utils").DPLossFastGradientClipping
    module = ghost(_in_torch(torch, hidden), max_grad_norm=CLIP, use_ghost_clipping=True)
    optimizer = stepper(
        torch.optim.SGD(module.parameters(), lr=0.1), noise_multiplier=0.0, max_grad_norm=CLIP,
        expected_batch_size=BATCH,
    )  # fmt: skip
    loss = losses_of(module, optimizer, torch.nn.CrossEntropyLoss(), loss_reduction="mean")
    x, y = torch.from_numpy(X), torch.from_numpy(Y)

    def clipped() -> None:
        optimizer.zero_grad()
        loss(module(x), y).backward()

    return clipped


def _in_torch(torch: Any, hidden: tuple[int, ...] | None) -> Any:
    nn = torch.nn
    if hidden is None:
        return nn.Sequential(
            nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 16, 8, 2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1),
            nn.Conv2d(16, 32, 4, 2), nn.Tanh(), nn.MaxPool2d(2, 1),
            nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, CLASSES),
        )  # fmt: skip
    layers: list = []
    for pair in itertools.pairwise((INPUTS, *hidden, CLASSES)):
        layers += [nn.Linear(*pair), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def table(repeats: int) -> dict[str, object]:
    """Medians by network, one way after the other: if they took turns, the libraries' threads would wait."""
    found: dict[str, object] = {}
    for name, hidden in NETWORKS.items():
        ways = by_jax(hidden)
        if hidden is not None:
            ways["NumPy"] = by_numpy(hidden)
        if importlib.util.find_spec("opacus"):
            ways["Opacus, ghost"] = by_opacus(hidden)
        median = lambda way: 1e3 * statistics.median(script.seconds(way) for _ in range(repeats))
        found[name] = {way: median(call) for way, call in ways.items()}
    return found


if __name__ == "__main__":
    script.main(__doc__, table, repeats=30)

"""Networks of flax linen, flax nnx and equinox."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from clients.ghost_norms.ways_to_use import K, compared
from fedjax_priv import models
from fedjax_priv.models.client_convolution import conv

RNG = np.random.default_rng(0)
IMAGES, WORDS = RNG.normal(size=(K, 6, 6, 3)), RNG.integers(0, 20, (K, 4))


class Linen(nn.Module):
    """Convolutions of both kinds, group normalisation, dropout of nothing, dense layers."""

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.GroupNorm(2)(nn.Conv(4, (3, 3), conv_general_dilated=conv)(x)))
        x = nn.max_pool(nn.Conv(20, (3, 3), 2)(x), (2, 2))
        return nn.Dense(3)(nn.relu(nn.Dense(4, use_bias=False)(x.reshape(len(x), -1))))


class Transformer(nn.Module):
    """A block of attention between embeddings and their transpose."""

    @nn.compact
    def __call__(self, ids):
        table = nn.Embed(20, 8)
        x = table(ids) + self.param("place", nn.initializers.normal(1.0), (4, 8))[None]
        x = nn.LayerNorm()(x + nn.MultiHeadDotProductAttention(2)(x, x))
        return table.attend(x + nn.Dense(8)(nn.gelu(nn.Dense(16)(x)))).mean(1)


class Nnx(nnx.Module):
    """A convolution, an embedding and a dense layer."""

    def __init__(self):
        rngs = nnx.Rngs(0)
        self.conv, self.embed = nnx.Conv(3, 20, (3, 3), rngs=rngs), nnx.Embed(20, 20, rngs=rngs)
        self.dense = nnx.Linear(20, 3, rngs=rngs)

    def __call__(self, x, ids):
        return self.dense(jnp.tanh(self.conv(x)).mean((1, 2)) * self.embed(ids[:, 0]))


def double(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tree)


def sines(y):
    return jnp.sin(y * jnp.arange(1.0, y.shape[1] + 1)[None]).sum(1)


def linen(module, examples):
    params = jax.jit(module.init)(jax.random.key(0), jnp.asarray(examples))["params"]
    return (lambda params, x: sines(module.apply({"params": params}, x))), params, examples


def of_nnx():
    structure, params = nnx.split(Nnx())
    return (lambda params, examples: sines(nnx.merge(structure, params)(*examples))), params, (IMAGES, WORDS)


def of_equinox():
    eqx = pytest.importorskip("equinox")

    def make(key):
        first, second = jax.random.split(key)
        layers = [eqx.nn.Conv2d(6, 20, 3, key=first), eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(240, 3, key=second)]
        return eqx.nn.Sequential(layers)

    model = models.from_equinox(make)
    return (
        (lambda params, x: sines(model.apply(params, x))),
        model.init(jax.random.key(0)),
        IMAGES[..., [0, 1, 2, 0, 1]],
    )


LOSSES = {
    "linen": lambda: linen(Linen(), IMAGES),
    "transformer": lambda: linen(Transformer(), WORDS),
    "nnx": of_nnx,
    "equinox": of_equinox,
}


@pytest.mark.parametrize("library", LOSSES)
def test_norms_and_clipped_sums(library):
    """No parameter of theirs needs gradients sample by sample."""
    loss, params, examples = LOSSES[library]()
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):  # which flax needs in float64
        errors, methods = compared(loss, double(params), jax.tree.map(jnp.asarray, examples))
    assert np.abs(errors).max() < (1e-7 if library == "nnx" else 1e-12)  # nnx computes in float32 here and there
    assert set(methods) == {"ghost norm", "instantiated"}

"""The precision of matrix products is JAX's own setting, in every form of local training."""

import functools
import re

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv import base, clients, losses, models, systems

pytestmark = pytest.mark.usefixtures("any_platform")
PRODUCTS = re.compile(r"stablehlo\.(?:dot_general|convolution)\b.*")
OF_A_VECTOR = re.compile(r"-> tensor<\d+xf32>")


@functools.cache
def traced(precision):
    """A round of FedAvg, of a network with convolutions."""
    shape, model = (4, 4, 1), models.mcmahan_cnn((4, 4, 1), 2)
    local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.1, batch_size=2, num_steps=1)
    system, key = systems.fedavg(local, mesh=None), jax.random.key(0)
    data = base.ClientData((jnp.zeros((3, 2, *shape)), jnp.zeros((3, 2), jnp.int32)), jnp.full(3, 2))
    with jax.default_matmul_precision(precision):
        state = jax.eval_shape(system.init, key, jax.eval_shape(model.init, key), data)
        return jax.jit(system.step).trace(key, state, data)


def products(platform, precision):
    """The lines of its matrix products and convolutions, without the check that updates are finite, of a vector."""
    found = PRODUCTS.findall(traced(precision).lower(lowering_platforms=(platform,)).as_text())
    return [line for line in found if not OF_A_VECTOR.search(line)]


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_local_training_obeys_the_setting(platform):
    """Nothing in it sets a precision of its own, in any form of a convolution."""
    usual, highest = (products(platform, precision) for precision in (None, "highest"))
    assert len(usual) == len(highest) >= 10
    assert not any("HIGH" in line for line in usual)
    assert all(line.count("HIGHEST") == 2 for line in highest)

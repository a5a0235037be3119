"""The precision of matrix products is JAX's own setting, in every form of local training."""

import re

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv import base, clients, losses, models, systems

pytestmark = pytest.mark.usefixtures("any_platform")
PRODUCTS = re.compile(r"stablehlo\.(?:dot_general|convolution)\b.*")


def products(model, shape, platform, precision):
    """The lines of matrix products and convolutions in a round of FedAvg."""
    local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.1, batch_size=2, num_steps=1)
    system, key = systems.fedavg(local, mesh=None), jax.random.key(0)
    data = base.ClientData((jnp.zeros((3, 2, *shape)), jnp.zeros((3, 2), jnp.int32)), jnp.full(3, 2))
    with jax.default_matmul_precision(precision):
        state = jax.eval_shape(system.init, key, jax.eval_shape(model.init, key), data)
        lowered = jax.jit(system.step).trace(key, state, data).lower(lowering_platforms=(platform,))
    return PRODUCTS.findall(lowered.as_text())


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_local_training_obeys_the_setting(platform):
    """Nothing in it sets a precision of its own, in any form of a convolution."""
    shape = (4, 4, 1)
    model = models.mcmahan_cnn(shape, 2)
    usual, highest = (products(model, shape, platform, precision) for precision in (None, "highest"))
    assert len(usual) == len(highest) >= 10
    assert not any("HIGH" in line for line in usual)
    assert all(line.count("HIGHEST") == 2 for line in highest)

"""Modules of flax nnx: the same network, dropout's keys left alone, running statistics refused."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from refusals import refused

from fedjax_priv import clients, losses, models, simulate, systems
from helpers import targets

KEY = jax.random.key(0)


def network(rngs):
    return nnx.Sequential(nnx.Linear(4, 5, rngs=rngs), nnx.relu, nnx.Linear(5, 3, rngs=rngs))


def test_it_is_the_same_network():
    model = models.from_nnx(network)
    params = model.init(KEY)
    assert models.num_params(params) == 43
    first, last = (jax.tree.map(np.asarray, params["layers"][i]) for i in (0, 2))
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    hidden = np.maximum(x @ first["kernel"] + first["bias"], 0)
    np.testing.assert_allclose(
        model.apply(params, jnp.asarray(x)), hidden @ last["kernel"] + last["bias"], rtol=1e-5, atol=1e-6
    )


def test_the_key_chooses_the_parameters():
    model = models.from_nnx(network)
    one, other = (model.init(jax.random.key(seed))["layers"][0]["kernel"] for seed in (1, 2))
    assert not np.allclose(one, other)


def test_running_statistics_are_refused_with_what_helps():
    with pytest.raises(ValueError, match=r"^make must .* BatchStat.* nnx.GroupNorm"):
        models.from_nnx(lambda rngs: nnx.BatchNorm(4, rngs=rngs))


def test_a_module_that_was_made_already_is_refused():
    with pytest.raises(
        ValueError, match=r"^make must be a function .* lambda rngs: Linear\(rngs=rngs\), got a module$"
    ):
        inspect.unwrap(models.from_nnx)(nnx.Linear(4, 3, rngs=nnx.Rngs(0)))


class KeepsRngs(nnx.Module):
    """Holds the keys it was made from, and draws from them if there is a deviation."""

    def __init__(self, rngs, deviation=0.0):
        self.linear, self.rngs, self.deviation = nnx.Linear(4, 3, rngs=rngs), rngs, deviation

    def __call__(self, x):
        logits = self.linear(x)
        return logits + self.deviation * self.rngs.noise.normal(logits.shape) if self.deviation else logits


def test_a_module_that_only_keeps_its_rngs_is_the_module_without():
    model = models.from_nnx(KeepsRngs)
    params, x = model.init(KEY), jnp.asarray(np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32))
    logits = np.asarray(x) @ np.asarray(params["linear"]["kernel"]) + np.asarray(params["linear"]["bias"])
    np.testing.assert_allclose(model.apply(params, x), logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.train(params, x, jax.random.split(KEY, 6)), logits, rtol=1e-5, atol=1e-6)


def test_a_module_that_draws_by_itself_has_a_draw_of_its_own_for_each_example_in_training():
    model = models.from_nnx(lambda rngs: KeepsRngs(rngs, deviation=1.0))
    params, x = model.init(KEY), jnp.zeros((200, 4))
    drawn = np.asarray(model.train(params, x, jax.random.split(KEY, 200)))  # and biases of 0
    assert len(np.unique(drawn)) == 600
    assert abs(drawn.std() - 1) < 5 / np.sqrt(2 * 600)
    np.testing.assert_array_equal(jax.jit(model.apply)(params, x), model.apply(params, x))


test_what_is_no_function_to_a_module_is_refused = refused(
    (3, "make must be a function of 1 argument, such as lambda rngs: .*, got int"),
    (lambda: 3, "make must be a function of 1 argument, such as lambda rngs: .*, got function"),
    (lambda rngs: 3, "make must return a callable nnx module, got int"),
    by=inspect.unwrap(models.from_nnx),
)


def test_it_trains_in_a_round():
    model = models.from_nnx(lambda rngs: nnx.Linear(4, 3, rngs=rngs))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 8, 4)).astype(np.float32), rng.integers(0, 3, (3, 8)).astype(np.int32)
    data = targets(3, 4)._replace(examples=(x, y), count=np.full(3, 8, np.int32))
    local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.5, batch_size=8, num_steps=5)
    run = simulate(systems.fedavg(local), KEY, model.init(KEY), data, rounds=3, progress=False)
    assert run.loss[-1].mean() < run.loss[0].mean()

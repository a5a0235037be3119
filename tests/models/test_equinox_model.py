"""Equinox modules, if equinox is installed."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from refusals import refused

from fedjax_priv import clients, interchange, losses, metrics, models, simulate, sweep, systems
from fedjax_priv.base import ClientData
from helpers import cohort_of

eqx = pytest.importorskip("equinox")

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(6, 2, 3)).astype(np.float32)


def network(key):
    return eqx.nn.Sequential([eqx.nn.Lambda(jnp.ravel), eqx.nn.MLP(6, 4, 5, 1, key=key)])


def test_logits_and_parameters_are_those_of_the_module():
    model = models.from_equinox(network)
    params, apply = model.init(KEY), jax.jit(model.apply)
    assert models.num_params(params) == 7 * 5 + 6 * 4
    expected = np.stack([network(KEY)(x) for x in X])
    np.testing.assert_allclose(apply(params, X), expected, rtol=1e-5, atol=1e-6)
    other = model.init(jax.random.key(1))
    assert not np.allclose(apply(other, X), expected)
    back = eqx.combine(other, network(KEY))
    np.testing.assert_allclose(back(X[0]), apply(other, X)[0], rtol=1e-5, atol=1e-6)
    assert list(interchange.to_numpy(params))[:2] == ["layers.1.layers.0.weight", "layers.1.layers.0.bias"]


def test_it_trains():
    model = models.from_equinox(network)
    local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.5, batch_size=2, num_epochs=4)
    data = ClientData((X[None], np.arange(6)[None] % 4), np.array([6]))
    evaluate = metrics.accuracy(model, X, np.arange(6) % 4)
    run = simulate(systems.fedavg(local, mesh=None), KEY, model.init(KEY), data, rounds=8, evaluate=evaluate, every=8)
    before, after = run.test_loss.values
    assert after < 0.5 * before


def test_a_sweep_takes_its_parameters_though_they_can_be_called():
    """Against a step of gradient descent by hand at each rate."""
    model, x, labels = models.from_equinox(lambda key: eqx.nn.Linear(3, 4, key=key)), X[:, 0], np.arange(6) % 4
    loss, params = losses.softmax_cross_entropy(model), model.init(KEY)

    def make(rate):
        return systems.fedavg(clients.local_sgd(loss, learning_rate=rate, batch_size=6, num_steps=1), mesh=None)

    data = ClientData((x[None], labels[None]), np.array([6]))
    result = sweep(make, {"rate": [0.1, 0.5]}, KEY, params, data, rounds=1, progress=False)
    weight, bias = np.asarray(params.weight), np.asarray(params.bias)
    likely = np.exp(x @ weight.T + bias)
    error = likely / likely.sum(1, keepdims=True) - np.eye(4)[labels]
    expected = [np.append(weight - rate * error.T @ x / 6, bias - rate * error.mean(0)) for rate in (0.1, 0.5)]
    np.testing.assert_allclose(result.params, expected, rtol=1e-5, atol=1e-6)
    assert result.attrs["num_params"] == 16


class Attention(eqx.Module):
    """Attention over the two places of an example, whose call takes no key."""

    attend: eqx.nn.MultiheadAttention
    read: eqx.nn.Linear

    def __init__(self, key, rate=0.0, inference=False):
        self.attend = eqx.nn.MultiheadAttention(1, 3, dropout_p=rate, inference=inference, key=key)
        self.read = eqx.nn.Linear(6, 4, key=key)

    def __call__(self, x):
        return self.read(jnp.ravel(self.attend(x, x, x)))


@pytest.mark.parametrize("options", [{}, {"rate": 0.3, "inference": True}])
def test_a_dropout_that_never_draws_needs_no_key(options):
    model = models.from_equinox(lambda key: Attention(key, **options))
    params, data = model.init(KEY), ClientData((X[None], np.arange(6)[None] % 4), np.array([6]))
    local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.5, batch_size=6, num_steps=1)
    update, *_ = jax.jit(local.apply)(KEY, (), params, data, cohort_of(1))

    def mean_loss(module):
        logits = jnp.stack([module(x) for x in X])
        return -jax.nn.log_softmax(logits)[np.arange(6), np.arange(6) % 4].mean()

    gradient = ravel_pytree(eqx.filter_jit(eqx.filter_grad(mean_loss))(Attention(KEY, **options)))[0]
    np.testing.assert_allclose(update[0], 0.5 * gradient, rtol=1e-4, atol=1e-6)


def test_a_module_that_draws_and_takes_no_key_is_refused():
    with pytest.raises(ValueError, match=r"^make must return a module whose call takes key=, .*Dropout.*, got one of "):
        models.from_equinox(lambda key: Attention(key, rate=0.3))


test_what_is_no_function_to_a_module_is_refused = refused(
    (3, "make must be a function of 1 argument, such as lambda key: .*, got int"),
    (lambda: 3, "make must be a function of 1 argument, such as lambda key: .*, got function"),
    (
        lambda key: eqx.nn.make_with_state(eqx.nn.MLP)(6, 4, 5, 1, key=key),
        "make must return a callable equinox module, got tuple",
    ),
    by=inspect.unwrap(models.from_equinox),
)


def test_a_module_in_place_of_a_function_is_refused():
    with pytest.raises(ValueError, match=r"^make must be a function from a key to a module, .*Linear.*, got a module$"):
        models.from_equinox(eqx.nn.MLP(4, 3, 2, 1, key=jax.random.key(0)).layers[0])

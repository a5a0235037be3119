"""A PyTorch module as a model: its numbers are those of the same network in JAX, in a round, too."""

import inspect
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import ClientData, clients, interchange, losses, models, simulate, systems
from fedjax_priv.runs.ending import SimulationError

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(3, 6, 4)).astype(np.float32), RNG.integers(0, 3, (3, 6)).astype(np.int32)
DATA = ClientData((X, Y), np.array([6, 2, 5], np.int32))
NAMES = {"Dense_0": "0", "Dense_1": "2"}


class Twin(nn.Module):
    @nn.compact
    def __call__(self, x):
        hidden = jnp.tanh(nn.Dense(5)(x))
        return nn.Dense(3)(hidden)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def network(torch):
    return interchange.from_torch(
        lambda: torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    )


def twins(network):
    params, twin = network.init(KEY), models.from_flax(Twin(), (4,))
    return params, twin, interchange.from_state_dict(jax.eval_shape(twin.init, KEY), params, names=NAMES)


def test_logits_and_gradients_are_those_of_the_twin(network):
    params, twin, same = twins(network)
    score = lambda model: lambda params, x: (jnp.sin(model.apply(params, x)) ** 2).sum()
    (value, (weights, rows)), (wanted, (wanted_weights, wanted_rows)) = (
        jax.value_and_grad(score(model), (0, 1))(p, jnp.asarray(X[0])) for model, p in ((network, params), (twin, same))
    )
    np.testing.assert_allclose(value, wanted, rtol=1e-5)
    np.testing.assert_allclose(rows, wanted_rows, atol=1e-6)
    for name, gradient in interchange.to_state_dict(wanted_weights, names=NAMES).items():
        np.testing.assert_allclose(weights[name], gradient, atol=1e-5)
        assert np.abs(gradient).max() > 1e-3


def test_a_round_is_that_of_the_twin(network):
    params, twin, same = twins(network)

    def trained(model, params):
        local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.5, batch_size=2, num_steps=2)
        run = simulate(systems.fedavg(local), KEY, params, DATA, rounds=2, progress=False)
        return jax.flatten_util.ravel_pytree(params)[1](jnp.asarray(run.params.values)), run.loss.values

    (ours, loss), (theirs, wanted) = trained(network, params), trained(twin, same)
    np.testing.assert_allclose(loss, wanted, atol=1e-5)
    for name, values in interchange.to_state_dict(theirs, names=NAMES).items():
        np.testing.assert_allclose(ours[name], values, atol=1e-5)
        assert np.abs(values - params[name]).max() > 1e-2


def test_the_key_chooses_the_parameters_and_nothing_else_moves(torch, network):
    before = torch.random.get_rng_state()
    one, again, other = (network.init(jax.random.key(seed))["0.weight"] for seed in (1, 1, 2))
    assert np.array_equal(one, again) and not np.allclose(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_clients_with_parameters_of_their_own_are_computed_one_by_one(network):
    params = [network.init(jax.random.key(seed)) for seed in range(3)]
    together = jax.jit(jax.vmap(network.apply))(jax.tree.map(lambda *a: jnp.stack(a), *params), X)
    for i, own in enumerate(params):
        np.testing.assert_allclose(together[i], network.apply(own, jnp.asarray(X[i])), rtol=1e-5, atol=1e-6)


def test_tokens_have_no_gradient(torch):
    model = interchange.from_torch(lambda: torch.nn.Sequential(torch.nn.Embedding(7, 2), torch.nn.Flatten()))
    tokens = jnp.array([[1, 2, 1]])
    gradient = jax.grad(lambda params: model.apply(params, tokens).sum())(model.init(KEY))["0.weight"]
    np.testing.assert_array_equal(gradient[:, 0], [0, 2, 1, 0, 0, 0, 0])


def test_dropout_draws_in_training_alone_by_key_and_the_same_backward(torch):
    model = interchange.from_torch(
        lambda: torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(40, 1, bias=False))
    )
    params, x, keys = model.init(KEY), jnp.ones((5, 40)), jax.random.split(KEY, 5)
    assert np.ptp(model.apply(params, x)) < 1e-5
    drawn = model.train(params, x, keys)
    assert np.unique(drawn.round(4)).size == 5
    np.testing.assert_array_equal(model.train(params, x, keys[::-1]), drawn[::-1])
    share = jnp.arange(1.0, 6)[:, None]  # examples are told apart
    gradient = jax.grad(lambda params: (share * model.train(params, x, keys)).sum())(params)
    np.testing.assert_allclose(
        (gradient["1.weight"] * params["1.weight"]).sum(), (share * drawn).sum(), rtol=1e-4
    )  # as of any linear function, if the draws are the same


def test_the_dropout_of_recurrent_networks_draws_too(torch):
    class Recurrent(torch.nn.Module):
        def __init__(self, dropout):
            super().__init__()
            self.cells = torch.nn.LSTM(3, 16, num_layers=2, dropout=dropout, batch_first=True)

        def forward(self, x):
            return self.cells(x)[0][:, -1]

    model, sure = (interchange.from_torch(lambda rate=rate: Recurrent(rate)) for rate in (0.5, 0.0))
    params, x, keys = model.init(KEY), jnp.ones((4, 5, 3)), jax.random.split(KEY, 4)
    drawn = model.train(params, x, keys)
    assert np.unique(np.asarray(drawn), axis=0).shape[0] == 4
    np.testing.assert_array_equal(model.train(params, x, keys[::-1]), drawn[::-1])
    assert np.ptp(model.apply(params, x), 0).max() < 1e-6 and sure.train is None


def frozen(module):
    module.weight.requires_grad_(False)
    return module


def test_a_module_that_raises_fails_the_round_and_is_named(torch):
    class Fails(torch.nn.Linear):
        def forward(self, x):
            if torch.is_grad_enabled():
                raise KeyError("mine")
            return super().forward(x)

    model = interchange.from_torch(lambda: Fails(4, 3))
    local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.5, batch_size=2, num_steps=1)
    with pytest.raises(SimulationError) as caught:
        simulate(systems.fedavg(local), KEY, model.init(KEY), DATA, rounds=1, progress=False)
    assert "module of from_torch raised KeyError: 'mine'" in str(caught.value) + str(caught.value.__cause__)
    gradient = jax.grad(lambda params: model.apply(params, jnp.asarray(X[0])).sum())(model.init(KEY))
    assert np.isnan(gradient["weight"]).all()  # so that a round on its own fails, too


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda torch: torch.nn.BatchNorm1d(4), r"^make must .* without buffers, got running_mean, .* nn.GroupNorm"),
        (lambda torch: 3, r"^make must return a torch.nn.Module, got int$"),
        (lambda torch: torch.nn.Linear(2, 2).double(), r"^make must .* float32, got \['torch.float64'\]$"),
        (lambda torch: torch.nn.Flatten(), r"^make must .* float32, got none$"),
        (lambda torch: frozen(torch.nn.Linear(2, 2)), "^make must .* are trained, got frozen weight$"),
    ],
)
def test_modules_that_are_no_models_are_refused(torch, make, message):
    with pytest.raises(ValueError, match=message):
        interchange.from_torch(lambda: make(torch))


def test_without_pytorch_its_models_say_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="need the package torch: pip install torch"):
        inspect.unwrap(interchange.from_torch)(lambda: None)

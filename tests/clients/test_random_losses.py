"""Losses that draw: new draws for each sample and step, none in evaluation, the same in any block."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from fedjax_priv import ClientData, clients, losses, metrics, models, simulate, systems
from fedjax_priv.clients.random_losses import keyed
from fedjax_priv.losses import RandomLoss

KEY = jax.random.key(0)
N, M, FEATURES = 3, 8, 16
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, M, FEATURES)).astype(np.float32)
DATA = ClientData((X, (X[..., 0] > 0).astype(np.int32)), np.full(N, M, np.int32))


class Network(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(2)(nn.Dropout(0.5, deterministic=not train)(nn.relu(nn.Dense(16)(x))))


class NnxNetwork(nnx.Module):
    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(FEATURES, 16, rngs=rngs), nnx.Linear(16, 2, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.last(self.dropout(nnx.relu(self.first(x))))


def equinox_model():
    eqx = pytest.importorskip("equinox")

    def make(key):
        one, two = jax.random.split(key)
        layers = [eqx.nn.Linear(FEATURES, 16, key=one), eqx.nn.Lambda(jax.nn.relu), eqx.nn.Dropout(0.5)]
        return eqx.nn.Sequential([*layers, eqx.nn.Linear(16, 2, key=two)])

    return models.from_equinox(make)


def flax_model():
    return models.from_flax(Network(), (FEATURES,), training={"train": True})


MODELS = {"linen": flax_model, "nnx": lambda: models.from_nnx(NnxNetwork), "equinox": equinox_model}


def test_a_module_that_draws_in_evaluation_is_refused_with_what_helps():
    model = models.from_flax(nn.Dropout(0.5, deterministic=False), (FEATURES,))
    with pytest.raises(ValueError, match=r"^module must draw nothing in .*evaluation.* training=, such as"):
        model.apply({}, jnp.ones((2, FEATURES)))


@pytest.mark.parametrize("name", MODELS)
def test_dropout_draws_in_training_alone_and_anew_for_each_sample(name):
    model = MODELS[name]()
    params, x = model.init(KEY), jnp.ones((400, FEATURES))
    calm = model.apply(params, x)
    assert np.ptp(calm, axis=0).max() < 1e-6
    drawn = jax.jit(model.train)(params, x, jax.random.split(KEY, 400))
    assert len(np.unique(np.asarray(drawn)[:, 0].round(4))) > 100
    again = jax.jit(model.train)(params, x, jax.random.split(KEY, 400))
    np.testing.assert_array_equal(again, drawn)
    np.testing.assert_allclose(
        drawn.mean(0), calm[0], atol=5 * float(drawn.std(0).max()) / 20
    )  # the last layer is linear


@pytest.mark.parametrize("model", [models.mlp((3,), 2), models.from_nnx(lambda rngs: nnx.Linear(3, 2, rngs=rngs))])
def test_a_model_without_dropout_draws_nothing(model):
    assert model.train is None and not isinstance(losses.softmax_cross_entropy(model), RandomLoss)


def test_each_step_client_and_sample_has_its_own_key():
    of_pairs, give = keyed(RandomLoss(lambda params, examples, keys: jax.random.uniform(keys[0]) * examples))
    clients_keys = jax.random.split(KEY, 2)
    words = [
        np.asarray(jax.random.key_data(give(clients_keys, jnp.int32(time), jnp.zeros((2, 3)))[1])) for time in (0, 1)
    ]
    assert len(np.unique(np.stack(words).reshape(-1, 2), axis=0)) == 2 * 2 * 3
    assert of_pairs((), (jnp.ones(3), clients_keys)).shape == (3,)


def test_it_trains_and_is_the_same_in_any_block():
    """With clipped samples; the test below is of both ways."""
    model = flax_model()
    local = clients.local_sgd(
        losses.softmax_cross_entropy(model), learning_rate=0.5, batch_size=4, num_epochs=4, sample_clip=1.0
    )
    scores = metrics.accuracy(model, X.reshape(-1, FEATURES), DATA.examples[1].ravel())
    run = lambda block: simulate(
        systems.fedavg(local, block=block, mesh=None), KEY, model.init(KEY), DATA, rounds=8, evaluate=scores, every=8,
        progress=False,
    )  # fmt: skip
    one, three = run(1), run(3)
    np.testing.assert_allclose(one.params, three.params, rtol=1e-4, atol=1e-5)
    assert one.accuracy[-1] > 0.85 > one.accuracy[0]


def test_the_gradient_of_a_sample_has_the_mask_of_its_loss():
    """A linear model whose input is masked: the gradient is the masked input, and clipping does not change the mask."""
    masks = jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (4,)))
    loss = RandomLoss(lambda w, x, keys: jnp.where(masks(keys), x, 0) @ w)
    data = ClientData(jnp.ones((1, 2, 4)), jnp.array([2]))
    moved = []
    for clip in (None, 100.0):
        local = clients.local_sgd(loss, learning_rate=1.0, batch_size=2, num_steps=1, sample_clip=clip)
        run = simulate(systems.fedavg(local, mesh=None), KEY, jnp.zeros(4), data, rounds=1, progress=False)
        moved.append(run.params.values)
    np.testing.assert_allclose(moved[0], moved[1], atol=1e-6)
    assert set(np.unique(np.abs(moved[0]))) <= {0.0, 0.5, 1.0} and 0 < np.abs(moved[0]).sum() < 4


def test_a_loss_that_draws_is_refused_where_nobody_gives_it_keys():
    local = clients.fedsgd(losses.softmax_cross_entropy(flax_model()))
    with pytest.raises(ValueError, match=r"^loss must not draw here: only clients.local_sgd gives"):
        simulate(systems.fedavg(local), KEY, flax_model().init(KEY), DATA, rounds=1, progress=False)

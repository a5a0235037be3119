"""The transformer: no place sees later ones, and it learns text."""

import functools

import jax
import numpy as np
import pytest

from fedjax_priv import clients, data, losses, metrics, models, simulate, systems

MODEL = models.transformer(11, 6, width=8, heads=2, blocks=2)
apply = jax.jit(MODEL.apply)


@functools.cache
def parameters():
    return MODEL.init(jax.random.key(0))


def test_number_of_parameters_layer_by_layer():
    width, norm = 64, 2 * 64
    attention = 4 * (width + 1) * width
    block = 2 * norm + attention + (width + 1) * 4 * width + (4 * width + 1) * width
    d = 103 * width + 64 * width + 2 * block + norm + (width + 1) * 103
    shapes = jax.eval_shape(models.transformer(103, 64).init, jax.random.key(0))
    assert models.num_params(shapes) == d == 117_479


def test_no_place_sees_a_later_one():
    tokens, params = np.arange(6, dtype=np.int32)[None], parameters()
    whole = np.asarray(apply(params, tokens))
    assert whole.shape == (1, 6, 11)
    for place in range(6):
        changed = np.asarray(apply(params, np.where(np.arange(6) == place, np.int32(9), tokens)))
        same = np.isclose(changed, whole, atol=1e-6).all((0, 2))
        assert same[:place].all() and not same[place:].any()
    np.testing.assert_allclose(apply(params, tokens[:, :3]), whole[:, :3], atol=1e-6)


def test_places_differ():
    logits = np.asarray(apply(parameters(), np.zeros((1, 6), np.int32)))[0]
    assert not np.allclose(logits[0], logits[1], atol=1e-4)


@pytest.mark.parametrize("wrong", [dict(heads=3), dict(width=0), dict(blocks=0)])
def test_a_bad_size_is_named(wrong):
    with pytest.raises(ValueError, match=r"must be"):
        models.transformer(**dict(vocabulary_size=11, length=6, width=8, heads=2) | wrong)


def test_clients_of_one_user_each_learn_to_write():
    """From tokens to metrics: better than the most frequent character, which is what a model without context knows."""
    text = data.python_documentation(16)
    few = text.users < 4
    clients_data = data.stack_clients((text.x_train[few], text.y_train[few]), data.by_user(text.users[few]))
    model = models.transformer(len(text.vocabulary), 16, width=16, heads=2, blocks=1)
    local = clients.local_sgd(losses.sequence_cross_entropy(model), learning_rate=1.0, batch_size=8, num_steps=8)
    scores = metrics.sequence_accuracy(model, text.x_test[:100], text.y_test[:100])
    params, length = model.init(jax.random.key(1)), dict(rounds=8, every=8, progress=False)
    run = simulate(systems.fedavg(local, mesh=None), jax.random.key(0), params, clients_data, evaluate=scores, **length)
    labels = text.y_test[:100]
    most = np.bincount(labels[labels >= 0]).max() / (labels >= 0).sum()
    assert run.accuracy[-1] > most + 0.02, (run.accuracy.values, most)

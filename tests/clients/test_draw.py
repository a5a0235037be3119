import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.clients.draw import bernoulli, everyone, sample

KEY = jax.random.key(4)
COUNT = jnp.arange(1, 13)


def drawn(draw, key=KEY, round=3):
    return draw.apply(key, draw.init(key, COUNT.size), jnp.int32(round), COUNT)[0]


def test_everyone_in_order_with_weights_by_samples():
    who = drawn(everyone())
    assert who.client.tolist() == list(range(12))
    np.testing.assert_allclose(who.weight, np.arange(1, 13) / 78, rtol=1e-6)
    assert who.selected.all()
    assert (who.round == 3).all()
    assert not who.group.any()
    assert not who.byzantine.any()


def test_groups_are_equal_and_new_each_round():
    first, second = (drawn(everyone(4, num_byzantine=2), jax.random.key(i)) for i in (0, 1))
    assert np.bincount(first.group).tolist() == [3, 3, 3, 3]
    assert (first.group != second.group).any()
    assert first.byzantine.tolist() == [True] * 2 + [False] * 10


def test_a_sample_is_uniform_without_replacement():
    clients = np.asarray(jax.vmap(lambda key: drawn(sample(5), key).client)(jax.random.split(KEY, 3000)))
    assert (np.diff(clients, axis=1) > 0).all(), "distinct, in order"
    share = np.bincount(clients.ravel(), minlength=12) / 3000
    assert np.abs(share - 5 / 12).max() < 5 * np.sqrt(5 / 12 * 7 / 12 / 3000)
    np.testing.assert_allclose(drawn(sample(5)).weight, (drawn(sample(5)).client + 1) / 78, rtol=1e-6)


def test_bernoulli_joins_independently():
    joins = np.asarray(jax.vmap(lambda key: drawn(bernoulli(0.3), key).selected)(jax.random.split(KEY, 3000)))
    assert np.abs(joins.mean(0) - 0.3).max() < 5 * np.sqrt(0.21 / 3000)
    assert abs(np.corrcoef(joins[:, 0], joins[:, 1])[0, 1]) < 5 / np.sqrt(3000)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sample(0), "size must be an integer >= 1"),
        (lambda: drawn(sample(13)), "size must be at most the number of clients, 12, got 13"),
        (lambda: bernoulli(0.0), "participation must be a number in"),
        (lambda: everyone(0), "num_groups must be an integer >= 1"),
        (lambda: everyone(num_byzantine=-1), "num_byzantine must be an integer >= 0"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()

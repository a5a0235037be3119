"""The beginning of a shuffle is that of the whole one, which NumPy sorts here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.base import ClientData
from fedjax_priv.clients import local_sgd, shuffles
from fedjax_priv.clients.shuffles import _begun, places_kept, shuffled, stable_argsort
from fedjax_priv.keys import per_client
from helpers import cohort_of

LAST = 2**32 - 1
WEIGHT, ALL = jnp.array([1.0, 2.0, 4.0]), jnp.ones(3, bool)


def words_of(keys, epoch, count, capacity):
    """`[b, m]`: the random bits that rows are sorted by; padding comes last."""
    bits = [
        jax.random.bits(jax.random.fold_in(key, t), (capacity,), jnp.uint32) for key, t in zip(keys, epoch, strict=True)
    ]
    return np.where(np.arange(capacity) < np.asarray(count)[:, None], np.stack(bits), np.uint32(LAST))


def used(order, count, first):
    """What may be used of an order `[b, k]`: -1 elsewhere."""
    many = np.where(np.asarray(count) <= order.shape[1], count, first)
    return np.where(np.arange(order.shape[1]) < many[:, None], order, -1)


@pytest.mark.parametrize("first", [1, 20, 60])
@pytest.mark.parametrize("capacity", [90, 230, 1000])
def test_it_is_the_beginning_of_the_whole_shuffle(capacity, first):
    size = places_kept(capacity, first)
    count = jnp.array([capacity, 0, 1, min(size, capacity), min(size + 1, capacity), capacity // 2], jnp.int32)
    keys, epoch = jax.random.split(jax.random.key(first), count.size), jnp.arange(count.size)
    order = np.asarray(jax.jit(shuffled, static_argnums=(3, 4))(keys, epoch, count, capacity, first))
    assert order.shape == (count.size, size)
    assert order.min() >= 0 and order.max() < capacity
    whole = np.argsort(words_of(keys, epoch, count, capacity), axis=1, kind="stable")[:, :size]
    np.testing.assert_array_equal(used(order, count, first), used(whole, count, first))


def test_few_places_are_kept_of_many_and_all_of_few():
    assert places_kept(1000, 20) == 114
    assert places_kept(227, 20) == 227
    assert places_kept(228, 20) == 114
    assert places_kept(1000, 2000) == 1000


RANDOM = np.random.default_rng(0).integers(0, 2**32, 300)
PLANTED = {
    "all below the limit": np.arange(300)[::-1],
    "none below the limit": LAST - np.arange(300),
    "too few below the limit": np.r_[np.arange(19), LAST - np.arange(281)],
    "all equal": np.full(300, 7),
    "the largest word": np.full(300, LAST),
    "the largest word once": np.where(np.arange(300) == 40, LAST, RANDOM),
}


@pytest.mark.parametrize("words", PLANTED.values(), ids=PLANTED)
def test_no_words_change_the_order(words):
    words = np.stack([words, words, RANDOM]).astype(np.uint32)
    count, first, size = np.array([290, 100, 300], np.int32), 20, 114
    there = np.arange(300) < count[:, None]
    words = np.where(there, words, np.uint32(LAST))
    order = np.asarray(jax.jit(_begun, static_argnums=(3, 4))(words, there, count, first, size))
    whole = np.argsort(words, axis=1, kind="stable")[:, :size]
    np.testing.assert_array_equal(used(order, count, first), used(whole, count, first))


def test_a_miss_in_one_of_several_runs_sorts_all_of_them():
    words = np.random.default_rng(1).integers(0, 2**32, (3, 2, 300), np.uint32)
    words[1, 1] = 5
    there, count = jnp.ones((2, 300), bool), jnp.full(2, 300)
    begun = lambda words: _begun(words, there, count, 20, 114)
    assert "cond[" in str(jax.make_jaxpr(jax.vmap(begun))(words))
    order = jax.jit(jax.vmap(begun))(words)
    np.testing.assert_array_equal(order[..., :20], np.argsort(words, axis=-1, kind="stable")[..., :20])


@pytest.mark.parametrize("first", [1, 20, 200])
def test_the_limit_seldom_misses(first, monkeypatch):
    """Where it does, the whole order is wrong here; few clients of each number of samples are enough to see it."""
    capacity, size = 2000, places_kept(2000, first)
    whole = lambda words: jnp.zeros(capacity, jnp.int32) if words.size == capacity else stable_argsort(words)
    monkeypatch.setattr(shuffles, "stable_argsort", whole)
    count = jnp.repeat(jnp.array([0, 1, first, size - 1, size, size + 1, 2 * size, capacity]), 100)
    keys, epoch = jax.random.split(jax.random.key(1), count.size), jnp.zeros(count.size, jnp.int32)
    order = np.asarray(jax.jit(shuffled, static_argnums=(3, 4))(keys, epoch, count, capacity, first))
    sample = used(order, count, first)
    assert all(len({*row[row >= 0].tolist()}) == (row >= 0).sum() for row in sample)
    missed = stats.binom(capacity, (first + size) / 2 / capacity)
    assert missed.cdf(first - 1) + missed.sf(size) < 4e-6
    assert stats.binom.sf(size, capacity, size / capacity) > 0.1  # a limit at `size` itself would miss often


def test_all_rows_are_sorted_in_a_branch_only():
    keys, count = jax.random.split(jax.random.key(0), 2), jnp.full(2, 1000)
    program = jax.make_jaxpr(lambda keys: shuffled(keys, jnp.zeros(2, jnp.int32), count, 1000, 20))(keys)
    (branch,) = (eqn for eqn in program.eqns if eqn.primitive.name == "cond")
    few, all_rows = map(str, branch.params["branches"])
    assert "sort" in few and "sort" in all_rows
    assert "u32[2,1000] = sort" not in few and "u32[2,1000] = sort" in all_rows
    assert "sort" not in {eqn.primitive.name for eqn in program.eqns}


@pytest.mark.parametrize("steps", [1, 3])
def test_training_takes_the_batches_of_the_whole_shuffle(steps):
    """Samples are one-hot and the loss is linear, so an update tells which samples were trained on."""
    count, key = np.array([400, 25, 250], np.int32), jax.random.key(4)
    data = ClientData(jnp.broadcast_to(jnp.eye(400), (3, 400, 400)), jnp.asarray(count))
    local = local_sgd(lambda w, x: x @ w, learning_rate=1.0, batch_size=10, num_steps=steps)
    update = jax.jit(local.apply)(key, (), jnp.zeros(400), data, cohort_of(3))[0]
    keys = per_client(lambda key: key, key, jnp.arange(3))
    whole = np.argsort(words_of(keys, np.zeros(3, int), count, 400), axis=1, kind="stable")
    served = [order[: min(10 * steps, n)] for order, n in zip(whole, count, strict=True)]
    for row, chosen in zip(np.asarray(update), served, strict=True):
        assert set(np.flatnonzero(row)) == set(chosen)
    if steps == 1:
        train = jax.jit(lambda: local.updates(key, jnp.zeros(400), data, cohort_of(3)).weighted_sum(WEIGHT, ALL))
        np.testing.assert_allclose(train(), WEIGHT @ update, rtol=1e-6)  # without a row for each client


@pytest.mark.parametrize("size", [1, 2, 3, 64, 65, 1000])
def test_the_sort_by_digits_is_a_stable_argsort(size):
    words = np.random.default_rng(size).integers(0, 2**32, size, np.uint32)
    words[size // 2 :] = words[0]  # ties keep their order
    np.testing.assert_array_equal(stable_argsort(jnp.asarray(words)), np.argsort(words, kind="stable"))

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.base import Local
from fedjax_priv.layers import plain_sparse, rand_k, stack, top_k
from fedjax_priv.layers.sparsification import MOST_PARAMS, Sparse
from fedjax_priv.status import Status
from fedjax_priv.systems import sparse_fedavg
from helpers import cohort_of, of_the_round, run_layer, same_bits, sparse_wire, survivors, targets

KEY = jax.random.key(11)
N, D, K = 5, 12, 4


def updates(n=N, d=D, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@functools.cache
def over_plain(layer, d):
    return stack(it=layer, send=plain_sparse(d))


def sent_by(layer, x, key=KEY, d=D, alive=None):
    alive = survivors(len(x)) if alive is None else alive
    return run_layer(over_plain(layer, d), key, jnp.asarray(x), cohort_of(len(x)), alive)


def dense(sparse, d=D):
    rows = np.zeros((len(sparse.value), d), np.float64)
    np.put_along_axis(rows, np.asarray(sparse.position, np.int64), np.asarray(sparse.value, np.float64), axis=1)
    return rows


@pytest.mark.parametrize("error_feedback", [False, True])
def test_rand_k_sends_its_coordinates_and_scales_them_without_memory(error_feedback):
    x = updates()
    result = sent_by(rand_k(D, K, error_feedback=error_feedback), x)
    got, factor = dense(result["upload"]), 1 if error_feedback else D / K
    chosen = got != 0
    assert (chosen.sum(1) == K).all()
    assert len(np.unique(chosen, axis=0)) > 1  # each client its own
    np.testing.assert_allclose(got, factor * np.where(chosen, x, 0), rtol=1e-6)
    memory = result["state"]["it"]
    assert memory == () if not error_feedback else same_bits(memory, jnp.where(chosen, 0, x))


def test_rand_k_is_unbiased_without_memory_and_contracts_with_it():
    """5 standard errors; what is sent with a memory is not scaled, and fails the same test."""
    x = updates(2)

    def away(layer):
        draw = jax.jit(jax.vmap(lambda key: sent_by(layer, x, key)["received"].value[0]))
        sums = np.asarray(draw(jax.random.split(KEY, 2000)), np.float64)
        error = sums.std(0, ddof=1) / np.sqrt(len(sums))
        return np.abs(sums.mean(0) - x.astype(np.float64).sum(0)) / error

    assert away(rand_k(D, K)).max() < 5
    assert (away(rand_k(D, K, error_feedback=True)) > 5).mean() > 0.5


def test_top_k_sends_the_largest_magnitudes():
    x = updates()
    x[0, :6] = [3, -3, 3, -3, 3, 3]  # of equal ones the first
    got = dense(sent_by(top_k(D, K), x)["upload"])
    largest = np.argsort(-np.abs(x), axis=1, kind="stable")[:, :K]
    expected = np.zeros((N, D))
    np.put_along_axis(expected, largest, np.take_along_axis(x, largest, 1), axis=1)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("lost", [[], [1, 3]])
def test_the_server_adds_what_arrives_by_group(lost):
    rng, group, alive = np.random.default_rng(1), np.array([0, 1, 1, 0, 1]), np.asarray(survivors(N, lost))
    position = np.stack([rng.permutation(D)[:K] for _ in range(N)]).astype(np.int32)
    y = Sparse(jnp.asarray(updates(N, K)), jnp.asarray(position))
    combine = plain_sparse(D, 2).combine
    received = jax.jit(lambda *uploads: combine.lower(combine.lift(*uploads)))(y, alive, group)
    for g in range(2):
        mine = alive & (group == g)
        np.testing.assert_allclose(received.value[g], dense(y)[mine].sum(0), rtol=1e-6, atol=1e-7)
        assert received.count[g] == mine.sum()


@pytest.mark.parametrize(("d", "k"), [(2, 1), (64, 3), (64, 11), (65, 9), (65, 10), (1000, 100), (1000, 101)])
def test_bits_are_those_of_the_message(d, k):
    """Positions while there are few, a bitmap from there on."""
    result = sent_by(top_k(d, k), updates(3, d), d=d)
    assert np.broadcast_to(result["sent"].bits, 3).tolist() == sparse_wire(d)(result["upload"])


def test_a_message_of_the_papers_size():
    """d = 165,000, k = d / 10: values and a bitmap of d bits, 16,500 positions of 18 bits would be longer."""
    bits = jax.eval_shape(lambda x: sent_by(top_k(165_000, 16_500), x, d=165_000)["sent"].bits, jnp.zeros((1, 165_000)))
    assert bits.dtype == jnp.uint32
    assert sent_by(top_k(165_000, 16_500), np.ones((1, 165_000), np.float32), d=165_000)["sent"].bits[0] == 693_000


@pytest.mark.parametrize("make", [rand_k, top_k])
def test_what_is_not_finite_is_told_whether_it_is_sent_or_not(make):
    x = np.ones((N, D), np.float32)
    x[:, 5], x[0, 5], x[3, 5], x[4, 5] = np.nan, 0.5, np.inf, 0.5
    layer = make(D, 1)
    for seed in range(3):
        status = sent_by(layer, x, jax.random.key(seed))["sent"].status
        assert status.tolist() == [0] + 3 * [Status.NOT_FINITE] + [0]


@pytest.mark.parametrize(("exact", "status"), [(True, Status.FIELD_OVERFLOW), (False, 0)])
def test_a_value_the_sum_cannot_hold_sets_its_bit(exact, status):
    x = jnp.asarray([[0.0, 2.0**15], [0.0, 1.0]])
    layer = stack(it=top_k(2, 1), send=plain_sparse(2, exact=exact))
    assert run_layer(layer, KEY, x, cohort_of(2), survivors(2))["sent"].refused.tolist() == [status, 0]


@pytest.mark.parametrize("sparsifier", ["rand_k", "top_k"])
def test_what_was_sent_and_what_is_kept_are_the_updates_that_counted(sparsifier):
    """Seide et al. 2014, through dropouts: an update that did not arrive is gone, the memory of its client is not."""
    rounds, data = 12, targets(N, D)
    vectors = jnp.asarray(np.random.default_rng(2).normal(size=(N, rounds, D)), jnp.float32)
    system = sparse_fedavg(
        of_the_round(vectors),
        num_params=D,
        k=K,
        sparsifier=sparsifier,
        error_feedback=True,
        dropout=0.3,
        block=2,
        mesh=None,
    )
    step, state = jax.jit(system.step), system.init(KEY, jnp.zeros(D), data)
    weight = np.asarray(data.count) / np.asarray(data.count).sum() / 0.7
    sent, given, lost = np.zeros(D), np.zeros(D), 0
    for t in range(rounds):
        before = np.asarray(state.layers["sparsify"])
        state, info = step(KEY, state, data)
        counted, after = np.asarray(info.counted), np.asarray(state.layers["sparsify"])
        assert (after[~counted] == before[~counted]).all() and (after[counted] != before[counted]).any(1).all()
        assert ((after[counted] == 0).sum(1) == K).all()
        sent += np.asarray(info.direction, np.float64)
        given += (weight[:, None] * np.asarray(vectors[:, t], np.float64))[counted].sum(0)
        lost += (~counted).sum()
        np.testing.assert_allclose(sent + after.sum(0), given, atol=1e-5)
    assert 0 < lost < N * rounds and np.abs(after).max() > 0.1


def test_memory_is_that_of_a_block():
    """1,000 clients, 165,000 parameters: nothing of the size of the cohort's updates."""
    n, d = 1000, 165_000

    def apply(key, memory, params, data, who):
        return jnp.broadcast_to(params, (who.client.size, d)), memory, jnp.zeros(who.client.size)

    system = sparse_fedavg(Local(lambda n, params: (), apply), num_params=d, k=d // 10, block=8, mesh=None)
    data = jax.eval_shape(lambda: targets(2, 1))
    data = jax.tree.map(lambda a: jax.ShapeDtypeStruct((n, *a.shape[1:]), a.dtype), data)
    state = jax.eval_shape(system.init, KEY, jax.ShapeDtypeStruct((d,), jnp.float32), data)
    text = jax.jit(system.step).lower(KEY, state, data).as_text()
    assert f"tensor<8x{d}xf32>" in text
    assert f"tensor<{n}x{d}" not in text and f"tensor<{n}x{d // 10}" not in text


@pytest.mark.parametrize("make", [rand_k, top_k])
def test_an_update_of_another_size_is_refused(make):
    with pytest.raises(ValueError, match=r"^num_params must be the size of an update, 12, got 13"):
        sent_by(make(13, K), updates(), d=13)


def test_bad_arguments():
    for make in (rand_k, top_k):
        with pytest.raises(ValueError, match=r"^k must be at most num_params = 3, got 4$"):
            make(3, 4)
    with pytest.raises(ValueError, match=f"^num_params must be at most {MOST_PARAMS}: bits are counted in uint32"):
        plain_sparse(MOST_PARAMS + 1)
    for num_clients in (None, 3):
        with pytest.raises(ValueError, match=f"^num_clients must be at least cohort_size = 4, got {num_clients}$"):
            sparse_fedavg(of_the_round(jnp.zeros((1, 1, 1))), num_params=3, k=1, cohort_size=4, num_clients=num_clients)


def test_a_cohort_is_scaled_to_the_population():
    """The mean over cohorts is the weighted mean of all clients; not scaled, it would be 2/5 of it."""
    data = targets(N, D)
    local = of_the_round(data.examples[:, None])
    system = sparse_fedavg(local, num_params=D, k=D, num_clients=N, cohort_size=2, mesh=None)
    state = system.init(KEY, jnp.zeros(D), data)
    draw = jax.jit(jax.vmap(lambda key: system.step(key, state, data)[1].direction))
    sums = np.asarray(draw(jax.random.split(KEY, 1000)), np.float64)
    weight = np.asarray(data.count) / np.asarray(data.count).sum()
    mean = (np.asarray(data.examples) * weight[:, None]).sum(0)
    error = sums.std(0, ddof=1) / np.sqrt(len(sums))
    assert (np.abs(sums.mean(0) - mean) < 5 * error).all()
    assert (np.abs(0.4 * sums.mean(0) - mean) > 5 * error).any()

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chisquare

from fedjax_priv.base import ClientData
from fedjax_priv.clients.minibatches import next_batch, per_epoch

M, B = 7, 3
COUNT = jnp.array([7, 4, 0, 1, 6], jnp.int32)


def serve(data, times, active=None, seed=0):
    """`[times, b, B]`: the examples served, -1 where not valid."""
    n = data.count.size
    keys = jax.random.split(jax.random.key(seed), n)
    active = jnp.ones(n, bool) if active is None else active

    def step(order, time):
        order, examples, valid = next_batch(keys, data, order, time, active, batch_size=B, first=M)
        return order, (examples, jnp.where(valid, examples, -1))

    return jax.lax.scan(step, jnp.zeros(data.examples.shape, jnp.int32), jnp.arange(times))[1]


def valid_batches(data, times, **how):
    return jax.tree.map(np.asarray, jax.jit(lambda data: serve(data, times, **how))(data))


def numbered(count, capacity=M):
    """Valid rows are numbered from 0, padding is 1000."""
    rows = np.arange(capacity)[None, :]
    return ClientData(jnp.asarray(np.where(rows < np.asarray(count)[:, None], rows, 1000), jnp.int32), count)


def test_an_epoch_serves_every_valid_row_once_in_full_batches_but_for_the_last():
    served, valid = valid_batches(numbered(COUNT), 6)
    assert served[:, [0, 1, 3, 4]].max() < 1000
    for client, count in enumerate(COUNT.tolist()):
        if not count:
            assert (valid[:, client] == -1).all()
            continue
        length = -(-count // B)
        for epoch in range(6 // length):
            batches = valid[epoch * length : (epoch + 1) * length, client]
            assert sorted(batches[batches >= 0]) == list(range(count))
            assert (batches[:-1] >= 0).all()


def test_batches_in_an_epoch_are_rounded_up():
    assert per_epoch(COUNT, B).tolist() == [3, 2, 0, 1, 2]


def test_a_client_that_is_not_served_has_no_valid_sample():
    _, valid = valid_batches(numbered(COUNT), 2, active=jnp.array([True, False, True, True, True]))
    assert (valid[:, 1] == -1).all()
    assert (valid[0, [0, 3, 4], 0] >= 0).all()


def chi_square_of_orders(orders):
    every = list(itertools.permutations(range(3)))
    return chisquare([sum(tuple(order) == one for order in orders) for one in every]).pvalue


def test_runs_side_by_side_with_other_clients_shuffle_in_a_branch_of_one_program():
    runs = [numbered(COUNT), numbered(COUNT[::-1])]
    together = jax.vmap(lambda data: serve(data, 6)[1])
    both = jax.tree.map(lambda *parts: jnp.stack(parts), *runs)
    np.testing.assert_array_equal(jax.jit(together)(both), [valid_batches(data, 6)[1] for data in runs])
    assert "cond[" in str(jax.make_jaxpr(together)(both))


def test_every_order_is_equally_likely_in_each_epoch_and_epochs_differ():
    _, orders = valid_batches(numbered(jnp.full(1200, 3, jnp.int32), 3), 2)
    assert chi_square_of_orders(orders[0].tolist()) > 1e-3
    assert chi_square_of_orders(orders[1].tolist()) > 1e-3
    assert 0.1 < (orders[0] == orders[1]).all(1).mean() < 0.24  # 1/6, 5 standard errors are 0.054
    one_bit = np.argsort(np.random.default_rng(0).integers(0, 2, (1200, 3)), axis=1, kind="stable")
    assert chi_square_of_orders(one_bit.tolist()) < 1e-3


def test_shuffles_are_drawn_only_where_an_epoch_begins():
    data = numbered(COUNT)
    keys, active = jax.random.split(jax.random.key(0), 5), jnp.ones(5, bool)
    order = jnp.zeros((5, M), jnp.int32)
    program = jax.make_jaxpr(lambda time: next_batch(keys, data, order, time, active, batch_size=B, first=M))(
        jnp.int32(1)
    )
    assert "sort" not in " ".join(str(eqn.primitive) for eqn in program.eqns)
    assert "sort" in str([eqn.params for eqn in program.eqns if eqn.primitive.name == "cond"])

"""A server that repeats a round without one client: the difference of the sums is this client's update."""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv.base import LyingServer
from fedjax_priv.leakage import residuals, secagg_protocol
from fedjax_priv.systems import secagg
from helpers import Q, targets, towards_target

KEY, N, D, TARGET, LEVELS = jax.random.key(2), 6, 4, 2, 2.0**16


def left_out(alive, cohort):
    """In each round after the first everybody is told that the target was lost: one list, which the check accepts."""
    told = alive & ((cohort.round == 0) | (cohort.client != TARGET))
    return jnp.broadcast_to(told[None], (alive.size, alive.size))


def sum_read(info):
    left = residuals(info.observed, secagg_protocol(group_size=N, consistency=True))
    total = np.bincount(left.coordinate, left.value.astype(float)).astype(np.int64) % Q
    return sorted({*left.client.tolist()}), np.where(total > Q // 2, total - Q, total)


def test_two_attempts_of_a_round_give_away_who_was_left_out():
    """Keys and masks are new, training is not. Controls: the sums alone, and a second attempt from another model."""
    data = targets(N, D)
    system = secagg(
        towards_target(), num_clients=N, levels=LEVELS, consistency=True, lying_server=LyingServer(lists=left_out),
        observe=lambda view: view, mesh=None,
    )  # fmt: skip
    step, state = jax.jit(system.step), system.init(KEY, jnp.zeros(D), data)
    first, again = step(KEY, state, data)[1], step(KEY, state._replace(round=jnp.int32(1)), data)
    assert int(first.status) == 0 and int(again[1].status) != 0 and int(again[0].round) == 2
    (everyone, whole), (others, rest) = sum_read(first), sum_read(again[1])
    assert everyone == [*range(N)] and others == [i for i in range(N) if i != TARGET]
    count = np.asarray(data.count, float)
    alone = -LEVELS * np.asarray(data.examples, float)[TARGET] * count[TARGET] / count.sum()
    assert 0 < np.abs(whole - rest - alone).max() <= 2 * N < np.abs(alone).max() / 20
    assert np.abs(whole - alone).max() > 100 * N < np.abs(rest - alone).max()
    moved = step(KEY, state._replace(round=jnp.int32(1), params=jnp.ones(D)), data)[1]
    assert np.abs(whole - sum_read(moved)[1] - alone).max() > 100 * N

"""Systems whose clients send one message each compute the mean that SecAgg computes, of the same cohorts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import systems
from fedjax_priv.layers import plain_field
from fedjax_priv.status import Status
from helpers import targets, towards_target

N, D, COINS = 9, 5, 2
SYSTEMS = {
    "lightsecagg": {"num_params": D, "colluders": 1, "lost": 4},
    "one_shot_secagg": {"num_params": D, "length": 4, "coins": COINS, "committee": 3, "threshold": 2, "fewest": 2},
    "flamingo": {"neighbours": 4, "committee": 3, "threshold": 2, "fewest": 2},
}
LEVELS = 2.0**16
ROUNDS = 6


@functools.cache
def rounds(name, **how):
    """`leave -> infos` of so many rounds, all from zero."""
    options = {"dropout": 0.2, "cohort_size": 7} | SYSTEMS.get(name, {}) | how

    def run(leave):
        asked = {} if "secure_sum" in how else {"leave": leave}
        made = getattr(systems, name)(towards_target(), num_clients=N, levels=LEVELS, mesh=None, **asked, **options)
        data = targets(N, D)
        state = made.init(jax.random.key(0), jnp.zeros(D), data)
        one = lambda number: made.step(jax.random.key(1), state._replace(round=number), data)[1]
        return jax.lax.map(one, jnp.arange(ROUNDS))

    return jax.jit(run)


@functools.cache
def of_secagg():
    return jax.device_get(rounds("secagg", secure_sum=plain_field())(0.0))


def opened(name, leave):
    return rounds(name, elide=True)(leave)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_mean_is_that_of_secagg(name):
    """Of a cohort of which some are lost; the laws run these systems on everybody, under masks."""
    wanted, found = of_secagg(), opened(name, 0.0)
    both = np.asarray((wanted.status == 0) & (found.status == 0))
    assert both.sum() >= 3
    np.testing.assert_array_equal(found.client, wanted.client)
    np.testing.assert_array_equal(found.counted[both], wanted.counted[both])
    np.testing.assert_allclose(found.direction[both], wanted.direction[both], atol=2 * N / LEVELS)
    assert len(np.unique(wanted.direction[both], axis=0)) > 1


@pytest.mark.parametrize("name", SYSTEMS)
def test_who_is_gone_when_asked_is_missed(name):
    """With nearly everybody gone no sum is opened."""
    assert np.asarray(opened(name, 0.99).status).all()


def test_a_value_without_room_for_the_errors_of_masks_fails_the_round():
    """One just below the largest is summed right, so the limit is no smaller than it must be."""
    room = (2**32 - 5) // 2 // (N * (2 * COINS * N + 1))  # grid points, where N clients' sums lie Delta apart
    data = targets(N, D)
    weights = np.asarray(data.count) / np.asarray(data.count).sum()
    largest = np.abs(np.asarray(data.examples) * weights[:, None]).max()
    data = data._replace(examples=data.examples / largest)

    @jax.jit
    def run(levels):
        system = systems.one_shot_secagg(towards_target(), num_clients=N, levels=levels, **SYSTEMS["one_shot_secagg"])
        return system.step(jax.random.key(1), system.init(jax.random.key(0), jnp.zeros(D), data), data)[1]

    assert int(run(1.01 * room).status) == Status.FIELD_OVERFLOW
    info = run(0.99 * room)
    assert int(info.status) == 0
    wanted = -(weights[:, None] * np.asarray(data.examples)).sum(0)
    np.testing.assert_allclose(info.direction, wanted, atol=2 * N / (0.99 * room))

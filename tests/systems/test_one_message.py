"""Systems whose clients send one message each compute the mean that SecAgg computes, of the same cohorts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import systems
from fedjax_priv.status import Status
from helpers import targets, towards_target

N, D, COINS = 9, 5, 2
SYSTEMS = {
    "lightsecagg": {"num_params": D, "colluders": 1, "lost": 4},
    "one_shot_secagg": {"num_params": D, "length": 4, "coins": COINS, "committee": 3, "threshold": 2, "fewest": 2},
    "flamingo": {"neighbours": 4, "committee": 3, "threshold": 2, "fewest": 2},
}
LEVELS = 2.0**16


def directions(system, rounds=6, **how):
    """Of the rounds from zero that succeed, by number."""
    made = system(towards_target(), num_clients=N, levels=LEVELS, **how)
    data, found = targets(N, D), {}
    state = made.init(jax.random.key(0), jnp.zeros(D), data)
    step = jax.jit(made.step)
    for number in range(rounds):
        after, info = step(jax.random.key(1), state, data)
        state = state._replace(round=after.round)
        if int(info.status) == 0:
            found[number] = np.asarray(info.direction)
    return found


@pytest.mark.parametrize("cohort_size", [None, 7])
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_mean_is_that_of_secagg(name, cohort_size):
    common = dict(cohort_size=cohort_size, dropout=0.2)
    wanted = directions(systems.secagg, threshold=2, elide=True, **common)
    found = directions(getattr(systems, name), elide=True, **common, **SYSTEMS[name])
    both = wanted.keys() & found.keys()
    assert len(both) >= 3
    for number in both:
        np.testing.assert_allclose(found[number], wanted[number], atol=2 * N / LEVELS)
    assert len({wanted[number].tobytes() for number in both}) > 1


@pytest.mark.parametrize("name", SYSTEMS)
def test_who_is_gone_when_asked_is_missed(name):
    """With nearly everybody gone no sum is opened."""
    assert not directions(getattr(systems, name), leave=0.99, elide=True, **SYSTEMS[name])


def test_a_value_without_room_for_the_errors_of_masks_fails_the_round():
    """One just below the largest is summed right, so the limit is no smaller than it must be."""
    room = (2**32 - 5) // 2 // (N * (2 * COINS * N + 1))  # grid points, where N clients' sums lie Delta apart
    for levels, status in ((0.99 * room, 0), (1.01 * room, Status.FIELD_OVERFLOW)):
        system = systems.one_shot_secagg(towards_target(), num_clients=N, levels=levels, **SYSTEMS["one_shot_secagg"])
        data = targets(N, D)
        weights = np.asarray(data.count) / np.asarray(data.count).sum()
        largest = np.abs(np.asarray(data.examples) * weights[:, None]).max()
        data = data._replace(examples=data.examples / largest)
        state = system.init(jax.random.key(0), jnp.zeros(D), data)
        _, info = jax.jit(system.step)(jax.random.key(1), state, data)
        assert int(info.status) == status
        if status == 0:
            wanted = -(weights[:, None] * np.asarray(data.examples)).sum(0)
            np.testing.assert_allclose(info.direction, wanted, atol=2 * N / levels)

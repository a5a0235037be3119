"""Rules in `federated_round`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aggregators.references import centered_clipping, krum
from fedjax_priv import aggregators
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import plain
from fedjax_priv.status import Status
from helpers import targets, towards_target

N, D = 8, 5
KEY = jax.random.key(3)


def alone():
    """Each client is a group."""
    draw = everyone()

    def apply(*args):
        who, state = draw.apply(*args)
        return who._replace(group=who.client), state

    return draw._replace(apply=apply, num_groups=N)


def system(rule):
    return federated_round(
        cohort=alone(), local=towards_target(), layers=plain(N), channel=erasure(), aggregate=rule,
        mesh=None,
    )  # fmt: skip


def rounds(rule, data, number):
    made = system(rule)
    step, state, infos = jax.jit(made.step), made.init(KEY, jnp.zeros(D), data), []
    for _ in range(number):
        state, info = step(KEY, state, data)
        infos.append(info)
    return state, infos


def test_a_row_that_is_not_finite_is_left_out():
    data = targets(N, D)
    spoilt = data._replace(examples=data.examples.at[3].set(jnp.nan))
    _, (info,) = rounds(aggregators.krum(2), spoilt, 1)
    honest = np.delete(-np.asarray(data.examples, np.float64), 3, 0)
    np.testing.assert_allclose(info.direction, krum(honest, 2), rtol=1e-5)
    assert int(info.status) == 0 and not info.counted[3]


def test_too_few_rows_for_the_rule_fail_the_round():
    state, (info,) = rounds(aggregators.krum(4), targets(N, D), 1)
    assert int(info.status) == Status.NOT_FINITE and (np.asarray(state.params) == 0).all()


def test_a_state_goes_from_round_to_round():
    data = targets(N, D)
    state, infos = rounds(aggregators.centered_clipping(0.3, 2), data, 3)
    w, v = np.zeros(D), np.zeros(D)
    for info in infos:
        v = centered_clipping(w - np.asarray(data.examples, np.float64), 0.3, 2, v)
        w = w - v
        np.testing.assert_allclose(info.direction, v, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state.params, w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [1, 2])
def test_buckets_are_drawn_anew_each_round(size):
    """At fixed parameters, since nothing is learned."""
    rule = aggregators.pre_aggregated(aggregators.bucketing(size), aggregators.krum(1))

    def shown(key, state, received):
        direction, _ = rule.apply(key, (), received)
        return 0.0 * direction, direction

    frozen = rule._replace(apply=shown, init=lambda d: jnp.zeros(d))
    data = targets(N, D)
    made = system(frozen)
    step, state, seen = jax.jit(made.step), made.init(KEY, jnp.zeros(D), data), set()
    for _ in range(6):
        state, _ = step(KEY, state, data)
        seen.add(np.asarray(state.aggregate).tobytes())
    assert (len(seen) == 1) == (size == 1)


def test_any_two_rows_may_share_a_bucket():
    """All 15 ways to pair six rows are drawn; rotations of one order are 2."""
    apply = lambda key: aggregators.bucketing(2).apply(key, jnp.eye(6), jnp.ones(6, bool))[0] > 0
    buckets = jax.jit(jax.vmap(apply))(jax.random.split(KEY, 300))
    assert len({frozenset(row.tobytes() for row in one) for one in np.asarray(buckets)}) == 15

"""Rules in `federated_round`."""

import importlib

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

geometric_median = importlib.import_module("fedjax_priv.aggregators.rules.geometric_median")
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


def last_step(x, limit):
    """Of `2 limit` Weiszfeld steps in float64, from rows weighed by one over their median distance to the rows: how
    long it is, in median distances of rows to where it ends."""
    x = np.asarray(x, np.float64)
    middle = lambda distance: np.sort(distance, -1)[..., (len(x) - 1) // 2]
    weights = 1 / middle(np.linalg.norm(x[:, None] - x, axis=2))
    here = weights @ x / weights.sum()
    for _ in range(2 * limit):
        weights = 1 / np.linalg.norm(x - here, axis=1)
        before, here = here, weights @ x / weights.sum()
    return np.linalg.norm(here - before) / middle(np.linalg.norm(x - here, axis=1))


def test_a_geometric_median_that_still_moves_is_no_direction(monkeypatch):
    """With fewer steps than are needed: NaN while the last one is longer than 1e-5, the same bits as ever once not."""
    rows = np.random.default_rng(5).normal(size=(N, D)).astype(np.float32)
    rows[:3] += 40
    whole, seen = np.asarray(jax.jit(lambda x: aggregators.geometric_median()(x))(rows)), set()
    for limit in (1, 5, 10, 60):
        monkeypatch.setattr(geometric_median, "MOST_STEPS", limit)
        found = np.asarray(jax.jit(lambda x: aggregators.geometric_median()(x))(rows))
        moves = last_step(rows, limit)
        assert not 0.8e-5 < moves < 1.25e-5, "too close to call"
        seen.add(moves > 1e-5)
        if moves > 1e-5:
            assert np.isnan(found).all()
        else:
            np.testing.assert_allclose(found, whole, atol=1e-3)
    assert seen == {True, False}
    np.testing.assert_array_equal(found, whole)


def test_a_round_whose_geometric_median_still_moves_fails(monkeypatch):
    data = targets(N, D)
    _, (fine,) = rounds(aggregators.geometric_median(), data, 1)
    monkeypatch.setattr(geometric_median, "MOST_STEPS", 1)
    state, (info,) = rounds(aggregators.geometric_median(), data, 1)
    assert int(info.status) == Status.NOT_FINITE and (np.asarray(state.params) == 0).all()
    assert int(fine.status) == 0


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e20])
def test_two_halves_of_equal_rows_have_a_geometric_median(size):
    """Where the typical distance is 0, or rounding moves the point for ever; any point between them is one."""
    rows = size * np.repeat([[0.0] * D, [1.0] * D], N // 2, axis=0).astype(np.float32)
    found = np.asarray(jax.jit(lambda x: aggregators.geometric_median()(x))(rows)) / size
    assert (found >= 0).all() and (found <= 1 + 1e-6).all() and np.ptp(found) < 1e-6

"""Attacks on the means of groups: in a layer, below the quantizer, and without knowing the groups."""

import functools
from inspect import unwrap as unwrapped
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.aggregators import coordinate_median, mean, trimmed_mean
from fedjax_priv.attacks import (
    alie,
    before_groups,
    foe,
    gaussian,
    infinite,
    mean_replacement,
    min_max,
    on_field_elements,
    on_group_means,
    on_updates,
    optimal_alie,
    optimal_foe,
    sign_flip,
)
from fedjax_priv.base import Aggregator
from fedjax_priv.crypto import field
from fedjax_priv.systems import fedrep, robust_fedavg, share
from helpers import cohort_of, of_the_round, refuses, targets

KEY = jax.random.key(3)
N, D, M = 9, 6, 4
X = np.random.default_rng(1).normal(0.3, 1, size=(N, D)).astype(np.float32)
WHO = cohort_of(N)._replace(
    selected=jnp.array([True] * 8 + [False]),
    byzantine=jnp.array([True, False, False, True, True, False, False, False, True]),
    group=jnp.array([3, 1, 3, 1, 1, 0, 0, 2, 2]),
)  # by first client: 3 {0, 2}, 1 {1, 3, 4}, 0 {5, 6}, 2 {7}; two of them are clean
PLAIN_MEAN = mean()._replace(most_byzantine=None)
CLEAN = np.stack([X[5:7].astype(np.float64).mean(0), X[7]])


def sent(layer, x=X, who=WHO):
    return np.asarray(jax.jit(lambda x: layer.encode(KEY, (), (), x, who)[0])(jnp.asarray(x)))


def reference_means(rows):
    """The mean of each group, by its first client."""
    return np.stack([rows[[0, 2]].mean(0), rows[[1, 3, 4]].mean(0), rows[[5, 6]].mean(0), rows[7]])


@pytest.mark.parametrize("rule", [False, True], ids=["alie", "optimal_foe"])
def test_attacked_groups_have_the_mean_that_the_attack_chose(rule):
    """In float64, from the means of clean groups alone; honest clients send what they did."""
    attack = optimal_foe(coordinate_median(), evals=5) if rule else alie(1.5)
    rows, honest = np.zeros((M, D)), np.array([False, False, True, True])
    rows[2:] = CLEAN
    target = np.asarray(jax.jit(attack)(KEY, jnp.asarray(rows, jnp.float32), honest, ~honest))[0]
    if not rule:
        np.testing.assert_allclose(target, CLEAN.mean(0) - 1.5 * CLEAN.std(0), rtol=1e-5)
    y = sent(on_group_means(attack, M))
    np.testing.assert_allclose(reference_means(y.astype(np.float64))[:2], np.tile(target, (2, 1)), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(y[[1, 2, 5, 6, 7, 8]], X[[1, 2, 5, 6, 7, 8]])
    np.testing.assert_array_equal(y[3], y[4], "attackers of a group send the same")


def test_those_who_take_no_part_make_no_difference():
    spoilt = X.copy()
    spoilt[8] = np.nan
    np.testing.assert_array_equal(sent(on_group_means(alie(), M), spoilt)[:8], sent(on_group_means(alie(), M))[:8])


def test_a_group_without_members_is_no_row():
    """Client 7 was alone in its group: what is left is one clean row, whose mean ALIE sends."""
    who = WHO._replace(selected=WHO.selected.at[7].set(False))
    means = reference_means(sent(on_group_means(alie(1.5), M), who=who).astype(np.float64))
    np.testing.assert_allclose(means[:2], np.tile(CLEAN[0], (2, 1)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attack", [alie(), min_max(), sign_flip(2.0), gaussian(), optimal_alie(mean(), evals=4)])
def test_groups_of_one_client_are_clients_bit_for_bit(attack):
    who = WHO._replace(group=jnp.asarray(np.random.default_rng(2).permutation(N)))
    assert np.array_equal(sent(on_group_means(attack, N), who=who), sent(on_updates(attack), who=who))


def test_what_is_sent_is_cut_to_the_range():
    assert (sent(on_group_means(infinite(), M, largest=7.5))[[0, 3, 4]] == 7.5).all()
    y = sent(on_group_means(foe(50.0), M, largest=1.0))
    assert (np.abs(y[[0, 3, 4]]) == 1).all()


# Below the quantizer


def test_a_mean_is_replaced_exactly_anywhere_in_the_field():
    """By Python integers; a target 500 times beyond the range that the quantizer allows a client."""
    levels, elements = 2.0**10, field.from_signed(jnp.asarray(np.round(X * 2**10), jnp.int32))
    target = 2.0**19
    attack = lambda key, rows, honest, byzantine: jnp.full_like(rows[:1], target)
    layer = on_field_elements(mean_replacement(attack, levels, M))
    y = np.asarray(jax.jit(lambda e: layer.encode(KEY, (), (), e, WHO)[0])(elements)).astype(object)
    for group, size in (([0, 2], 2), ([1, 3, 4], 3)):
        assert (y[group].sum(0) % field.Q == size * 2**29).all() or size * 2**29 > 2**31 - 128
    assert (y[[0, 2]].sum(0) % field.Q == 2**30).all()
    assert (y[[1, 2, 5, 6, 7, 8]] == np.asarray(elements)[[1, 2, 5, 6, 7, 8]]).all()


def test_a_target_that_is_no_number_is_not_harmless():
    attack = lambda key, rows, honest, byzantine: jnp.full_like(rows[:1], jnp.nan)
    layer = on_field_elements(mean_replacement(attack, 1.0, M))
    y = np.asarray(jax.jit(lambda: layer.encode(KEY, (), (), jnp.zeros((N, D), jnp.uint32), WHO)[0])())
    assert (y[[0, 3]] == 2**31 - 128).all() and not y[[1, 2, 4]].any()


def test_elements_are_read_as_means_of_clean_groups():
    levels, elements = 2.0**16, field.from_signed(jnp.asarray(np.round(X * 2**16), jnp.int32))
    layer = on_field_elements(mean_replacement(alie(1.5), levels, M))
    y = np.asarray(jax.jit(lambda e: layer.encode(KEY, (), (), e, WHO)[0])(elements)).astype(object)
    total = (y[[1, 3, 4]].sum(0) % field.Q).astype(np.int64)
    signed = np.where(total > field.Q // 2, total - field.Q, total) / levels / 3
    np.testing.assert_allclose(signed, CLEAN.mean(0) - 1.5 * CLEAN.std(0), atol=1e-4)


# Without knowing the groups


def test_before_groups_are_drawn_a_mean_is_attacked_as_if_rows_were_clients():
    """Groups of two, all mean: the direction is the mean over clients whatever the grouping."""
    honest = jnp.arange(8) >= 2
    x, search = jnp.asarray(X[:8]), functools.partial(optimal_foe, evals=6)
    blind, seen = before_groups(search, mean(), 4, draws=3), search(mean())
    found = jax.jit(lambda *rows: (blind(KEY, *rows), seen(KEY, *rows)))(x, honest, ~honest)
    np.testing.assert_allclose(*found, rtol=1e-4)


def first_row(key, state, received):
    return received.value[0], state


def first_row_or_nothing(key, state, received):
    return jnp.where(jax.random.bernoulli(key), received.value[0], 0), state


@pytest.mark.parametrize(("apply", "often"), [(first_row, 0.25), (first_row_or_nothing, 0.125)])
def test_before_groups_are_drawn_the_mean_over_draws_counts(apply, often):
    """A client among eight is in the first of four rows with probability 1/4; rules draw anew each time."""
    x, honest = jnp.zeros((8, 3)), jnp.arange(8) >= 1
    reached = []

    def search(respond):
        def attack(key, updates, honest, byzantine):
            reached.append(respond(jnp.where(byzantine[:, None], 1.0, updates)))
            return jnp.zeros((1, 3))

        return attack

    before_groups(search, Aggregator(lambda d: (), apply), 4, draws=400)(KEY, x, honest, ~honest)
    hits = np.asarray(reached[0])[:, 0]
    assert set(hits.tolist()) == {0.0, 0.5}
    assert abs((hits > 0).mean() - often) < 5 * np.sqrt(often * (1 - often) / 400)


# In systems

BUFFERED, S = 16, 2
UPDATES = np.random.default_rng(5).normal(0.2, 1.0, size=(BUFFERED, 1, 200)).astype(np.float32)


@functools.partial(jax.jit, static_argnums=0)
def direction(system):
    data = targets(BUFFERED, 200)
    return system.step(KEY, system.init(KEY, jnp.zeros(200), data), data)[1].direction


def moved(system, **how):
    """How far the direction is from the honest clients' mean, in the honest rows' root mean square distance."""
    how = dict(num_clients=BUFFERED, num_byzantine=2, aggregate=trimmed_mean(2), mesh=None, **how)
    found = direction(system(of_the_round(jnp.asarray(UPDATES)), **how))
    return np.linalg.norm(found - UPDATES[2:, 0].mean(0)) / np.sqrt(200)


def masked(local, **how):
    return share(local, buffer_size=S, elide=True, **how)


def test_an_attack_on_rows_bites_where_one_on_updates_is_weak():
    """With z = 1.5 a client moves its row by z / 2 standard deviations of a client, a chosen row by z / sqrt(2)."""
    honest, weak, strong = moved(masked), moved(masked, attack=alie(1.5)), moved(masked, group_attack=alie(1.5))
    assert strong > 1.3 * weak > 1.3 * honest
    sparse = functools.partial(fedrep, num_params=200, k=1600, buffer_size=S, in_the_clear=True)
    assert moved(sparse, group_attack=alie(1.5)) > 1.2 * moved(sparse, attack=alie(1.5))


def test_a_mean_is_moved_as_far_as_the_quantizer_allows():
    """The search on a mean runs to the end: rows of 2 buffers of 8 at the largest summand of the field."""
    how = dict(num_clients=BUFFERED, num_byzantine=2, aggregate=PLAIN_MEAN, mesh=None, levels=2.0**20)
    far = masked(of_the_round(jnp.asarray(UPDATES)), group_attack=foe(1e9), **how)
    reach = (2**31 - 128) / 2**20 / S / S  # of a buffer's mean, whose other member is honest
    assert np.abs(np.abs(direction(far)) - reach * 2 / 8).max() < 1


def test_buffers_of_one_client_are_attacked_as_clients():
    """To the grid of the quantizer: the two programs round in another order."""
    local = of_the_round(jnp.asarray(UPDATES))
    how: Any = dict(num_clients=BUFFERED, buffer_size=1, in_the_clear=True, num_byzantine=2, aggregate=trimmed_mean(2))
    pair = share(local, mesh=None, attack=min_max(), **how), share(local, mesh=None, group_attack=min_max(), **how)
    np.testing.assert_allclose(*[direction(system) for system in pair], atol=2.0**-19)


def test_what_is_refused():
    local = of_the_round(jnp.asarray(UPDATES))
    with pytest.raises(ValueError, match="^group_attack must not be given with attack: .* got both$"):
        masked(local, num_clients=16, num_byzantine=1, attack=foe(), group_attack=foe())
    for rule in (coordinate_median(), trimmed_mean(1)):  # M - f = 1: one clean buffer of two
        with pytest.raises(ValueError, match="^num_byzantine=1 can corrupt 1 of 2 rows|needs 3$"):
            masked(local, num_clients=4, num_byzantine=1, aggregate=rule, group_attack=foe())
    with pytest.raises(TypeError, match="group_attack"):
        robust_fedavg(local, num_clients=4, group_attack=foe())


@pytest.mark.parametrize("largest", [2.0, np.inf, 0.0, -1.0, np.nan])
def test_a_traced_range(largest):
    """As a number; out of range what Byzantine clients send is NaN."""
    made = lambda largest: on_group_means(foe(5.0), M, largest=largest)
    found = jax.jit(lambda largest: made(largest).encode(KEY, (), (), jnp.asarray(X), WHO)[0])(largest)
    if largest > 0:
        np.testing.assert_allclose(found, sent(made(largest)), rtol=1e-6)
    else:
        np.testing.assert_array_equal(np.isnan(found).all(1), np.isin(np.arange(N), [0, 3, 4]))


test_bad_arguments = refuses(
    lambda make: make(),
    (
        lambda: mean_replacement(unwrapped(alie), 2**20, 2),
        "attack must be a function of 4 arg.* got alie, which",
    ),
    (lambda: unwrapped(mean_replacement)("alie", 2**20, 2), "attack must be a function of 4 arguments, .* got 'alie'"),
    (
        lambda: mean_replacement(lambda key, x, honest, byzantine: x[:, :2], 1.0, M)(
            KEY, jnp.zeros((N, D), jnp.uint32), WHO.selected, WHO.byzantine, WHO.group
        ),
        r"attack must return rows of shape \(4, 6\) or \(1, 6\), got \(4, 2\)",
    ),
    *(
        (
            lambda largest=largest: unwrapped(on_group_means)(foe(), 2, largest=largest),
            "largest must be a number > 0, got",
        )
        for largest in (0.0, -1.0, float("nan"), "7", None)
    ),
    (lambda: on_group_means(foe(), 0), "num_groups must be an integer >= 1, got 0"),
    (lambda: before_groups(optimal_foe, mean(), 0), "num_groups must be an integer >= 1, got 0"),
    (lambda: before_groups(optimal_foe, mean(), 2, draws=0), "draws must be an integer >= 1, got 0"),
    (lambda: mean_replacement(foe(), 0.0, 2), "levels must be a finite number > 0, got 0.0"),
    (lambda: mean_replacement(foe(), 1.0, 0), "num_groups must be an integer >= 1, got 0"),
)

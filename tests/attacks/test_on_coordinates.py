"""Attacks on proposed coordinates."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedjax_priv.attacks import honest_set, random_set, same_set, smallest
from helpers import chi_square, p_value_of_subsets

N, D, K = 7, 10, 3
KEY = jax.random.key(2)
ATTACKS = {"honest_set": honest_set(), "smallest": smallest(), "random_set": random_set(), "same_set": same_set()}
JITTED = {name: jax.jit(attack) for name, attack in ATTACKS.items()}
MASKS = st.lists(st.booleans(), min_size=N, max_size=N).map(np.array)


def round_of(seed):
    """Updates, and the proposals of honest clients: their largest coordinates."""
    updates = np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)
    return updates, np.argsort(-np.abs(updates), axis=1)[:, :K].astype(np.int32)


def proposed(name, updates, proposals, honest, key=KEY):
    rows = JITTED[name](key, jnp.asarray(updates), jnp.asarray(proposals), jnp.asarray(honest))
    assert rows.dtype == jnp.int32 and rows.shape == proposals.shape
    return np.asarray(rows)


@given(name=st.sampled_from(sorted(ATTACKS)), honest=MASKS, seed=st.integers(0, 50))
def test_proposals_are_distinct_coordinates_and_depend_on_honest_rows_and_their_own(name, honest, seed):
    updates, proposals = round_of(seed)
    before = proposed(name, updates, proposals, honest)
    assert before.min() >= 0 and before.max() < D
    assert all(len(set(row)) == K for row in before.tolist())
    for i in np.flatnonzero(~honest):
        others = (~honest & (np.arange(N) != i))[:, None]
        after = proposed(name, np.where(others, np.nan, updates), np.where(others, 0, proposals), honest)
        np.testing.assert_array_equal(before[i], after[i])


def test_honest_set():
    updates, proposals = round_of(0)
    np.testing.assert_array_equal(proposed("honest_set", updates, proposals, np.arange(N) > 2), proposals)


def test_smallest():
    updates, proposals = round_of(1)
    updates[0] = [3, -1, 0.5, 2, -0.5, 7, 7, 7, 1, 7]
    found = proposed("smallest", updates, proposals, np.arange(N) > 2)
    assert set(found[0]) == {1, 2, 4}, "of equal magnitudes the lower coordinate"
    np.testing.assert_array_equal(np.sort(found), np.sort(np.argsort(np.abs(updates), axis=1, kind="stable")[:, :K]))


def many(attack, honest, count=1200):
    updates, proposals = (jnp.asarray(a) for a in round_of(3))
    run = jax.jit(jax.vmap(lambda key: attack(key, updates, proposals, jnp.asarray(honest))))
    return np.asarray(run(jax.random.split(KEY, count)))


def test_random_sets_are_uniform_and_each_clients_own():
    sets = np.sort(many(random_set(), np.arange(N) > 2), axis=2)
    assert p_value_of_subsets(sets[:, 0], D) > 1e-3
    equal, chance = (sets[:, 0] == sets[:, 1]).all(1).mean(), 1 / math.comb(D, K)
    assert abs(equal - chance) < 5 * np.sqrt(chance / len(sets))


def test_same_sets_are_of_uniform_honest_clients_one_for_each():
    honest = np.array([False, True, True, False, True, True, False])
    _, proposals = round_of(3)
    sets = many(same_set(), honest)
    of = (sets[:, :, None] == proposals[None, None]).all(3)  # [draws, n, n]: whose set it is
    assert (of.sum(2) == 1).all() and not of[:, :, ~honest].any()
    counts = of.sum(0)[:, honest]
    assert all(chi_square(row, len(sets) / 4)[1] > 1e-3 for row in counts)
    assert abs((of[:, 0] & of[:, 3]).any(1).mean() - 1 / 4) < 5 * np.sqrt(3 / 16 / len(sets))


def test_same_set_without_honest_clients_is_their_own():
    updates, proposals = round_of(4)
    np.testing.assert_array_equal(proposed("same_set", updates, proposals, np.zeros(N, bool)), proposals)


@pytest.mark.parametrize("name", ["random_set", "same_set"])
def test_draws_of_a_row_stay_where_clients_are_added_and_change_with_the_key(name):
    updates, proposals = round_of(5)
    honest = np.arange(N) < 3
    more = proposed(name, updates, proposals, honest)
    fewer = ATTACKS[name](KEY, jnp.asarray(updates[:5]), jnp.asarray(proposals[:5]), jnp.asarray(honest[:5]))
    np.testing.assert_array_equal(fewer, more[:5])
    assert any((proposed(name, updates, proposals, honest, jax.random.key(i)) != more).any() for i in range(3))

"""Draws of private training: their exact laws, their capacity, and the separation that they enforce."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused
from scipy import stats

from fedjax_priv.clients import cyclic_poisson, poisson, sample, separated
from helpers import chi_square

KEY = jax.random.key(4)
DRAWS = 20_000


def drawn(draw, population=5, draws=DRAWS, round=0):
    """Who takes part, `[draws, population]`, one key a draw; and the cohorts."""
    count = jnp.ones(population, jnp.int32)
    one = lambda key: draw.apply(key, draw.init(key, population), jnp.int32(round), count)[0]
    who = jax.jit(jax.vmap(one))(jax.random.split(KEY, draws))
    present = jax.vmap(lambda who: jnp.zeros(population, bool).at[who.client].set(who.selected))(who)
    return np.asarray(present), who


def p_value(present, law):
    """Of the hypothesis that sets have the probabilities `law(size)`, against every subset's number of draws."""
    subsets = [*itertools.product((0, 1), repeat=present.shape[1])]
    counts = np.bincount(present @ 2 ** np.arange(present.shape[1])[::-1], minlength=len(subsets))
    expected = np.array([law(sum(subset)) for subset in subsets]) * len(present)
    assert not counts[expected == 0].any() and np.isclose(expected.sum(), len(present))
    return chi_square(counts[expected > 0], expected[expected > 0])[1]


@pytest.mark.parametrize("rate", [0.3, 1.0], ids=str)
def test_poisson_tosses_a_coin_for_each_client(rate):
    present, _ = drawn(poisson(rate))
    coins = lambda p: lambda size: p**size * (1 - p) ** (5 - size)
    if rate == 1:
        assert present.all()
        return
    assert p_value(present, coins(rate)) > 1e-3
    assert p_value(present, coins(0.9 * rate)) < 1e-9


def test_above_its_capacity_a_uniform_subset_takes_part():
    present, who = drawn(poisson(0.3, capacity=2))
    assert who.client.shape[1] == 2
    pmf = stats.binom.pmf(np.arange(3), 5, 0.3)
    pmf[2] = 1 - pmf[:2].sum()
    assert p_value(present, lambda size: pmf[size] / [1, 5, 10][size] if size <= 2 else 0) > 1e-3


def test_the_usual_capacity_is_exceeded_with_probability_1e_15():
    present, who = drawn(poisson(0.01), population=2_000, draws=500)
    size = who.client.shape[1]
    assert stats.binom.sf(size, 2_000, 0.01) <= 1e-15 < stats.binom.sf(size - 1, 2_000, 0.01)
    number = present.sum(1)
    assert abs(number.mean() - 20) < 5 * np.sqrt(20 * 0.99 / 500) and number.var() > 10
    assert (np.diff(np.asarray(who.client), axis=1) > 0).all()


def test_a_row_is_taken_as_often_as_the_cohort_says():
    """Not with the probability of a client's coin: there are fewer rows than clients. A full cohort says 1 or 0."""
    _, who = drawn(cyclic_poisson(0.05, 2), population=200, draws=4000)
    rows = who.client.shape[1]
    assert rows < 40 and (who.participation == who.participation[0, 0]).all()
    error = np.sqrt(100 * 0.05 * 0.95 / 4000) / rows
    assert abs(who.selected.mean() - who.participation[0, 0]) < 5 * error < abs(0.05 - who.participation[0, 0])
    assert abs(who.selected.mean(0) - who.participation[0]).max() < 5 * np.sqrt(0.25 / 4000)
    _, full = drawn(poisson(0.3, capacity=2), draws=100)
    np.testing.assert_array_equal(full.participation, full.selected)


def test_in_cyclic_poisson_groups_take_turns():
    for turn in range(3):
        present, who = drawn(cyclic_poisson(0.3, 3), population=6, round=turn + 3)
        assert set(np.flatnonzero(present.any(0))) == {turn, turn + 3}
        assert p_value(present[:, [turn, turn + 3]], lambda size: 0.3**size * 0.7 ** (2 - size)) > 1e-3
        assert (np.asarray(who.client) % 3 == turn).all()


def gaps(draw, population, rounds):
    """Rounds between two of one client, the least and the mean number of rounds of a client."""
    count = jnp.ones(population, jnp.int32)

    def body(state, t):
        who, state = draw.apply(jax.random.fold_in(KEY, t), state, t, count)
        return state, who.client

    clients = np.asarray(jax.jit(lambda: jax.lax.scan(body, draw.init(KEY, population), jnp.arange(rounds))[1])())
    assert (np.diff(clients, axis=1) > 0).all()
    when = [np.flatnonzero((clients == i).any(1)) for i in range(population)]
    return min(np.diff(each).min() for each in when), np.array([len(each) for each in when])


def test_separated_keeps_clients_apart_and_a_uniform_sample_does_not():
    least, times = gaps(separated(3, 4), 13, 600)
    assert least == 4
    assert np.abs(times - 600 * 3 / 13).max() < 5 * np.sqrt(600 * 3 / 13)
    assert gaps(separated(3, 4), 12, 60)[0] == 4  # nobody is left over
    assert gaps(sample(3), 13, 60)[0] == 1


def test_the_first_cohort_of_separated_is_uniform():
    present, _ = drawn(separated(2, 2))
    assert p_value(present, lambda size: (size == 2) / 10) > 1e-3


test_bad_arguments = refused(
    (lambda: poisson(1.5), r"rate must be a number in \(0, 1\], got 1.5"),
    (lambda: poisson(0.0), r"rate must be a number in \(0, 1\], got 0.0"),
    (lambda: jax.jit(poisson)(0.5), "rate must be known when the program is compiled"),
    (lambda: poisson(0.9, capacity=0), "capacity must be an integer >= 1, got 0"),
    (lambda: drawn(poisson(0.9, capacity=2)), "capacity must be from 4.5, the expected number of clients, to their"),
    (lambda: drawn(poisson(0.9, capacity=6)), "capacity must be from 4.5, .* number, 5, got 6"),
    (lambda: cyclic_poisson(0.5, 0), "separation must be an integer >= 1"),
    (lambda: drawn(cyclic_poisson(0.5, 2)), "num_clients must be a multiple of separation = 2, got 5"),
    (lambda: separated(0, 2), "size must be an integer >= 1"),
    (lambda: separated(3, 2).init(KEY, 5), "separation must be at most 1, the rounds that 5 clients last for in"),
)

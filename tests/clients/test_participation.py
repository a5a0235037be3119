import functools
import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.base.byzantine_clients import are_byzantine
from fedjax_priv.clients import (
    at_levels,
    bernoulli,
    everyone,
    independent,
    only_if,
    sample,
    scheduled,
    weighed_by_staleness,
)
from fedjax_priv.layers import within_budget
from fedjax_priv.theory.byzantine_cohorts import probability_of_more
from helpers import equations, p_value_of_subsets, refuses, same_bits

KEY = jax.random.key(4)
COUNT = jnp.arange(1, 13)


def drawn(draw, key=KEY, round=3):
    return draw.apply(key, draw.init(key, COUNT.size), jnp.int32(round), COUNT)[0]


def test_a_schedule_begins_with_its_first_row_and_repeats():
    draw = scheduled(np.array([[0, 1], [1, 2], [0, 2]]))
    assert [drawn(draw, round=round).client.tolist() for round in (0, 1, 3)] == [[0, 1], [1, 2], [0, 1]]


def test_everyone_in_order_with_weights_by_samples():
    who = drawn(everyone())
    assert who.client.tolist() == list(range(12))
    np.testing.assert_allclose(who.weight, np.arange(1, 13) / 78, rtol=1e-6)
    assert who.selected.all()
    assert (who.round == 3).all()
    assert not who.group.any()
    assert not who.byzantine.any()


def test_groups_are_equal_and_new_each_round():
    first, second = (drawn(everyone(4, num_byzantine=2), jax.random.key(i)) for i in (0, 1))
    assert np.bincount(first.group).tolist() == [3, 3, 3, 3]
    assert (first.group != second.group).any()
    assert first.byzantine.tolist() == [True] * 2 + [False] * 10


def test_a_sample_is_uniform_without_replacement():
    clients = np.asarray(jax.vmap(lambda key: drawn(sample(5), key).client)(jax.random.split(KEY, 3000)))
    assert (np.diff(clients, axis=1) > 0).all(), "distinct, in order"
    share = np.bincount(clients.ravel(), minlength=12) / 3000
    assert np.abs(share - 5 / 12).max() < 5 * np.sqrt(5 / 12 * 7 / 12 / 3000)
    np.testing.assert_allclose(drawn(sample(5)).weight, (drawn(sample(5)).client + 1) / 78, rtol=1e-6)


def test_byzantine_clients_of_a_sample_are_the_first_of_the_population():
    who = drawn(sample(5, num_byzantine=6))
    assert who.byzantine.tolist() == (who.client < 6).tolist()
    assert 0 < who.byzantine.sum() < 5
    assert not drawn(sample(5)).byzantine.any()
    with pytest.raises(ValueError, match="^num_byzantine must be an integer >= 0, got -1$"):
        sample(5, num_byzantine=-1)


SPREAD = np.isin(np.arange(12), [1, 4, 7, 8, 11])


def test_byzantine_clients_may_be_any_of_the_population():
    who = drawn(sample(5, 2, num_byzantine=SPREAD))
    assert who.byzantine.tolist() == SPREAD[np.asarray(who.client)].tolist()
    assert sorted(who.group.tolist()) in ([0, 0, 0, 1, 1], [0, 0, 1, 1, 1])
    assert drawn(everyone(num_byzantine=SPREAD)).byzantine.tolist() == SPREAD.tolist()


@pytest.mark.parametrize("of", [int, np.int64, np.int32])
def test_a_number_of_byzantine_clients_may_be_numpys(of):
    assert inspect.unwrap(are_byzantine)(jnp.arange(4), 4, num_byzantine=of(2)).tolist() == [True, True, False, False]


def test_how_many_byzantine_clients_come_is_hypergeometric():
    cohorts = jax.vmap(lambda key: drawn(sample(5, num_byzantine=SPREAD), key).byzantine.sum())
    number = np.asarray(cohorts(jax.random.split(KEY, 3000)))
    for tolerated in (1, 2, 3):
        p = probability_of_more(12, 5, 5, tolerated)
        assert abs((number > tolerated).mean() - p) < 5 * np.sqrt(p * (1 - p) / 3000)
    assert abs((number > 2).mean() - probability_of_more(12, 4, 5, 2)) > 5 * np.sqrt(0.25 / 3000), "one fewer"


def samples_of(size, population, draws):
    """That many cohorts, one per key."""
    count = jnp.ones(population, jnp.int32)
    draw = jax.jit(jax.vmap(lambda key: sample(size).apply(key, (), jnp.int32(0), count)[0].client))
    return np.asarray(draw(jax.random.split(KEY, draws)))


def moved_up(draws, population):
    """The control: a repeated number is replaced by the next free one."""
    for row in draws:
        for i in range(len(row)):
            while row[i] in row[:i]:
                row[i] = (row[i] + 1) % population
    return np.sort(draws, axis=1)


@pytest.mark.parametrize(("size", "population"), [(2, 8), (3, 13), (3, 5)], ids=str)
def test_every_subset_is_equally_likely(size, population):
    assert p_value_of_subsets(samples_of(size, population, 20_000), population) > 1e-3
    control = np.random.default_rng(0).integers(population, size=(20_000, size))
    assert p_value_of_subsets(moved_up(control, population), population) < 1e-9


@pytest.mark.parametrize(("size", "population"), [(1, 4), (16, 64), (17, 64), (256, 1025), (7, 7)], ids=str)
def test_a_sample_is_distinct_in_order_and_in_range(size, population):
    clients = samples_of(size, population, 50)
    assert clients.dtype == np.int32
    assert (np.diff(clients, axis=1) > 0).all()
    assert clients.min() >= 0 and clients.max() < population
    assert size == population or len(np.unique(clients, axis=0)) > 1


def test_a_sample_is_the_same_alone_in_a_sweep_and_in_a_scan():
    count = jnp.arange(1, 101, dtype=jnp.int32)
    draw = lambda key: sample(9).apply(key, (), jnp.int32(0), count)[0]
    keys = jax.random.split(KEY, 6)
    alone = jax.jit(draw)
    swept = jax.jit(jax.vmap(draw))(keys)
    scanned = jax.jit(lambda keys: jax.lax.scan(lambda _, key: ((), draw(key)), (), keys)[1])(keys)
    each = jax.tree.map(lambda *rows: jnp.stack(rows), *map(alone, keys))
    assert same_bits(swept, each)
    assert same_bits(scanned, each)


def test_a_sample_of_a_million_clients_computes_with_no_array_of_a_million():
    count = jax.ShapeDtypeStruct((1_000_000,), jnp.int32)
    apply = lambda size: jax.make_jaxpr(lambda key, count: sample(size).apply(key, (), jnp.int32(0), count))
    large = lambda size: {
        equation.primitive.name
        for equation in equations(apply(size)(KEY, count).jaxpr)
        if any(math.prod(v.aval.shape) >= 1_000_000 for v in equation.outvars)
    }
    assert not large(1000)
    assert "sort" in large(250_001), "a cohort of the same order as the population is a permutation"


def test_bernoulli_joins_independently():
    joins = np.asarray(jax.vmap(lambda key: drawn(bernoulli(0.3), key).selected)(jax.random.split(KEY, 3000)))
    assert np.abs(joins.mean(0) - 0.3).max() < 5 * np.sqrt(0.21 / 3000)
    assert abs(np.corrcoef(joins[:, 0], joins[:, 1])[0, 1]) < 5 / np.sqrt(3000)


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: sample(0), "size must be an integer >= 1"),
    (lambda: drawn(sample(13)), r"size \(cohort_size of a system\) must be at most the number of clients, 12, got 13"),
    (lambda: bernoulli(np.array([0.2, -0.1])), "participation must be a number in"),
    (lambda: inspect.unwrap(independent)(max, 0.5), "fading must be a Fading, such as channels.rayleigh.., got float"),
    (lambda: inspect.unwrap(independent)(0.5), r"probability must be a function of \(round, gain\), got float$"),
    (
        lambda: independent(lambda gain: gain),
        r"probability must be a function of \(round, gain\), got one of \(gain\)$",
    ),
    (lambda: inspect.unwrap(only_if)(everyone(), 0.5), r"left must be a function of \(cohort\), got float$"),
    (lambda: everyone(0), "num_groups must be an integer >= 1"),
    (
        lambda: everyone(num_byzantine=np.zeros(12)),
        "num_byzantine must be an integer >= 0 or a bool mask of shape",
    ),
    (
        lambda: drawn(sample(5, num_byzantine=SPREAD[:11])),
        "num_byzantine must be .* of shape .12,., got bool .11,.",
    ),
    (lambda: drawn(sample(5, num_byzantine=13)), "num_byzantine must be an integer from 0 to 12, got 13"),
    (lambda: everyone(num_byzantine=-1), "num_byzantine must be an integer >= 0"),
    (
        lambda: inspect.unwrap(scheduled)(np.zeros((2, 2), int)),
        r"members must be a table of .* rows, got array\(\[\[0, 0\], \[0, 0\]\]\)$",
    ),
    (lambda: inspect.unwrap(scheduled)([[0, 1], [2]]), "members must be a table of integers >= 0 that increase"),
    *(
        (
            functools.partial(inspect.unwrap(of), everyone, *args, **how),
            "draw must be a Draw, such as .* got everyone, ",
        )
        for of, args, how in (
            (only_if, (lambda cohort: cohort.gain,), {}),
            (weighed_by_staleness, (), {"levels": 2}),
            (at_levels, (within_budget(0.6, budget=1.0),), {}),
        )
    ),
)

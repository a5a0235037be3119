import inspect
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.engine.side_by_side import traced_for
from fedjax_priv.layers import coordinate_sets
from fedjax_priv.layers.coordinate_sets import AT_ONCE, TOLERANCE, check_sizes, num_rounds, random_coordinates
from helpers import p_value_of_subsets, refuses

KEY = jax.random.key(3)


def draws(num, d, k):
    draw = jax.vmap(lambda i: random_coordinates(jax.random.fold_in(KEY, i), d, k))
    return np.sort(np.asarray(jax.jit(draw)(jnp.arange(num))), axis=1)


@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 1), (7, 7), (8, 5), (1000, 31), (1001, 1000)])
def test_coordinates_are_distinct_and_in_range(d, k):
    sets = draws(20, d, k)
    assert sets.shape == (20, k) and sets.min() >= 0 and sets.max() < d
    assert (np.diff(sets, axis=1) > 0).all()
    assert k in (1, d) or len(np.unique(sets, axis=0)) > 1


@pytest.mark.parametrize(("d", "k"), [(5, 4), (6, 3), (8, 2)])
def test_every_set_is_as_likely_as_any_other(monkeypatch, d, k):
    assert p_value_of_subsets(draws(20_000, d, k), d) > 1e-3
    monkeypatch.setattr(coordinate_sets, "num_rounds", lambda d, k: 3)
    assert p_value_of_subsets(draws(20_000, d, k), d) < 1e-9


def test_large_sets_look_like_draws_without_replacement():
    """How often each coordinate comes, how many neighbours do, and how many two draws share: mean and variance."""
    num, d, k = 2000, 1000, 100
    sets = draws(num, d, k)
    chosen = np.zeros((num, d), bool)
    np.put_along_axis(chosen, sets, True, axis=1)
    often, expected = chosen.sum(0), num * k / d
    statistic = ((often - expected) ** 2).sum() / expected / (1 - k / d) * (d - 1) / d
    assert stats.chi2.cdf(statistic, d - 1) == pytest.approx(0.5, abs=0.499)
    shared = (chosen[::2] & chosen[1::2]).sum(1)
    law = stats.hypergeom(d, k, k)
    assert abs(shared.mean() - law.mean()) < 5 * law.std() / np.sqrt(num / 2)
    assert abs(shared.var() / law.var() - 1) < 5 * np.sqrt(2 / (num / 2))
    for gap in (1, 2, 500):
        pairs = (chosen & np.roll(chosen, gap, axis=1)).sum(1)
        assert abs(pairs.mean() - k * (k - 1) / (d - 1)) < 5 * pairs.std() / np.sqrt(num)


@pytest.mark.parametrize(("d", "k"), [(8, 5), (1000, 31)])
def test_accelerators_draw_the_same_coordinates(d, k):
    with traced_for("accelerator"):
        found = jax.jit(lambda key: random_coordinates(key, d, k))(KEY)
    assert num_rounds(d, k) % AT_ONCE, "a turn of fewer rounds is left over"
    np.testing.assert_array_equal(found, random_coordinates(KEY, d, k))


@pytest.mark.usefixtures("any_platform")
@pytest.mark.parametrize(("platform", "rounds"), [("cpu", 1), ("cuda", 8), ("tpu", 8)])
def test_accelerators_do_eight_rounds_of_the_shuffle_in_a_turn(platform, rounds):
    """120 rounds, with which a program for a GPU has 15 turns, not 120."""
    assert num_rounds(159_010, 1_590) == 120
    draw = jax.jit(lambda key: random_coordinates(key, 159_010, 1_590)).trace(KEY)
    text = draw.lower(lowering_platforms=(platform,)).as_text()
    assert len(re.findall(r"call @closed_call\w*\(.*\) -> tensor<1590xui32>", text)) == rounds


def distance_after(d, k, rounds):
    """Total variation between {0, ..., k-1} after rounds of swap-or-not and a uniform set, by the Markov chain."""
    subsets = {frozenset(subset): i for i, subset in enumerate(itertools.combinations(range(d), k))}
    chain = np.zeros((len(subsets), len(subsets)))
    for subset, i in subsets.items():
        for pairing in range(d):
            pairs = [{x, (pairing - x) % d} for x in range(d) if x <= (pairing - x) % d]
            outcomes = [[p & subset, {(pairing - x) % d for x in p & subset}] for p in pairs]
            for after in itertools.product(*outcomes):
                chain[i, subsets[frozenset().union(*after)]] += 1 / d / 2 ** len(pairs)
    start = np.eye(len(subsets))[subsets[frozenset(range(k))]]
    return np.abs(start @ np.linalg.matrix_power(chain, rounds) - 1 / len(subsets)).sum() / 2


@pytest.mark.parametrize(("d", "k"), [(4, 1), (6, 3), (7, 5)])
def test_rounds_suffice(d, k):
    """Against the exact chain, and a fifth of them do not."""
    assert distance_after(d, k, num_rounds(d, k)) <= TOLERANCE
    assert distance_after(d, k, num_rounds(d, k) // 5) > TOLERANCE


def test_a_size_computed_by_numpy_becomes_pythons():
    assert type(inspect.unwrap(check_sizes)(np.prod((2, 3)), k=2)) is int


def test_rounds_grow_as_the_logarithm():
    assert num_rounds(2**26, 2**20) < 2 * num_rounds(2**13, 2**7)
    assert num_rounds(1000, 100) == num_rounds(1000, 900) < num_rounds(1000, 500)


test_bad_arguments = refuses(
    lambda d, k: random_coordinates(KEY, d, k),
    (5, 6, "k must be at most num_params = 5, got 6"),
    (5, 0, "k must be an integer >= 1, got 0"),
    (5, True, "k must be an integer >= 1, got True"),
    (2**31, 1, "num_params must be an integer below 2**31, got 2147483648"),
    whole=True,
)

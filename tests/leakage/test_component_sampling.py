"""The simulation against theory, which is tested against all outcomes of small graphs."""

import numpy as np
import pytest

from fedjax_priv.leakage import ratio, sample_components
from fedjax_priv.leakage.component_sampling import _pairs
from fedjax_priv.theory import sparse_secagg as theory
from helpers import chi_square, refuses

SETTINGS = [(30, 10, 0.1, 0.3), (100, 33, 0.1, 0.3), (12, 0, 1.0, 0.2), (1000, 333, 0.5, 0.1), (5, 2, 1.0, 0.0)]


def drawn(count, n, adversaries, alpha, dropout, **how):
    return sample_components(
        count, num_clients=n, num_adversaries=adversaries, alpha=alpha, dropout=dropout, seed=5, **how
    )


@pytest.mark.parametrize(("n", "adversaries", "alpha", "dropout"), SETTINGS)
def test_shares_and_counts_are_those_of_theory(n, adversaries, alpha, dropout):
    sample, sizes = drawn(40_000, n, adversaries, alpha, dropout, max_size=4), np.array([1, 2, 3, 4])
    share, setting = sample.fraction, theory.Setting(n, alpha, dropout, adversaries / n)
    expected = lambda dropout: theory.component_fraction(setting._replace(dropout=dropout), sizes)
    away = lambda dropout: np.abs(share.value - expected(dropout)) / np.maximum(share.error, 1e-9)
    assert (away(dropout) <= 5).all()
    assert away(dropout + 0.05).max() > 5
    sent = theory.aggregated_honest_clients(setting)
    variance = theory.aggregated_honest_clients_variance(setting)
    assert abs(sample.sent.mean() - sent) <= 5 * np.sqrt(variance / len(sample.sent))


def test_every_value_is_in_one_component():
    sample = drawn(2_000, 9, 3, 1.0, 0.1, max_size=6)
    np.testing.assert_array_equal(sample.read.sum(1), sample.sent)
    assert (sample.read % np.arange(1, 7) == 0).all()
    assert (sample.read.sum(0) > 0).all()
    np.testing.assert_array_equal(drawn(2_000, 9, 3, 1.0, 0.1, max_size=2).read, sample.read[:, :2])


def test_pairs_are_independent_and_alike():
    survivors, a = np.tile([6, 0, 1, 4], 20_000), 0.2
    unit, low, high = _pairs(np.random.default_rng(2), a, survivors)
    assert (low >= 0).all() and (low < high).all() and (high < survivors[unit]).all()
    assert len(set(zip(unit.tolist(), low.tolist(), high.tolist(), strict=True))) == len(unit)
    for members in (6, 4):
        kind = (survivors[unit] == members).nonzero()
        pairs = members * (members - 1) // 2
        counts = np.bincount(low[kind] * members + high[kind])
        assert np.count_nonzero(counts) == pairs
        assert chi_square(counts[counts > 0], np.full(pairs, 20_000 * a))[0] < pairs + 5 * np.sqrt(2 * pairs)


def test_edges():
    certain = drawn(50, 2, 0, 1.0, 0.0)
    assert (certain.sent == 2).all() and (certain.read == [0, 2, 0]).all()
    with_the_server = drawn(50, 2, 1, 1.0, 0.0)
    assert (with_the_server.read == [1, 0, 0]).all()
    assert drawn(50, 4, 0, 1e-9, 0.5).sent.sum() == 0


def test_another_seed_another_draw():
    how = dict(num_clients=9, num_adversaries=0, alpha=0.5, dropout=0.1)
    first, same, other = (sample_components(500, **how, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.read, same.read)
    assert not np.array_equal(first.read, other.read)
    assert ratio(first.read, first.sent).value.tolist() == first.fraction.value.tolist()


GOOD = dict(num_coordinates=9, num_clients=9, num_adversaries=0, alpha=0.5, dropout=0.1, seed=0)

test_bad_arguments = refuses(
    lambda how: sample_components(**(GOOD | how)),
    (dict(num_coordinates=0), "num_coordinates must be an integer >= 1, got 0"),
    (dict(num_clients=1), "num_clients must be an integer >= 2, got 1"),
    (dict(num_adversaries=9), "num_adversaries must be below num_clients = 9, got 9"),
    (dict(alpha=0.0), "alpha must be a number in (0, 1], got 0.0"),
    (dict(dropout=1.0), "dropout must be a number in [0, 1), got 1.0"),
    (dict(seed=-1), "seed must be an integer >= 0, got -1"),
    whole=True,
)

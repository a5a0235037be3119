"""Partitions: every sample exactly once, and as much skew as the distributions have."""

import functools
import inspect

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import each, refused

import fedjax_priv.data
from fedjax_priv.data import dirichlet, few_labels, gamma_similarity, iid, lognormal, quantity_skew, shards
from fedjax_priv.data.partition import _top_up, checked

PARTITIONS = {
    "iid": iid,
    "shards": shards,
    "gamma_similarity": lambda *args: gamma_similarity(*args, gamma=0.3),
    "dirichlet": lambda *args: dirichlet(*args, concentration=0.3),
    "quantity_skew": lambda *args: quantity_skew(*args, concentration=0.3),
}
LABELS = np.repeat(np.arange(10), 90)[np.random.default_rng(0).permutation(900)]


def sizes(parts):
    return np.array([len(part) for part in parts])


def label_shares(parts, labels):
    """Fraction of each label that each client has: [labels, clients], rows sum to 1."""
    counts = np.array([np.bincount(labels[part], minlength=labels.max() + 1) for part in parts]).T
    return counts / counts.sum(axis=1, keepdims=True)


def assert_beta_variance(shares, concentration, num_clients):
    """Fractions [draws, clients] vary as Beta(c, (n - 1) c), and not as for twice or half the concentration."""
    spread = np.mean((shares - 1 / num_clients) ** 2, axis=1)
    mean, error = spread.mean(), spread.std() / np.sqrt(len(spread))

    def expected(c):
        return (1 - 1 / num_clients) / num_clients / (num_clients * c + 1)

    assert abs(mean - expected(concentration)) < 5 * error
    assert abs(mean - expected(2 * concentration)) > 5 * error
    assert abs(mean - expected(concentration / 2)) > 5 * error


@given(data=st.data())
@pytest.mark.parametrize("name", PARTITIONS)
def test_every_sample_is_used_once(name, data):
    labels = np.array(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=120)))
    num_clients = data.draw(st.integers(1, len(labels)))
    seed = data.draw(st.integers(0, 2**63))
    concentration = data.draw(st.floats(1e-6, 1e6))
    options = {
        "shards": {"num_shards": num_clients * data.draw(st.integers(1, len(labels) // num_clients))},
        "gamma_similarity": {"gamma": data.draw(st.floats(0, 1))},
        "dirichlet": {"concentration": concentration},
        "quantity_skew": {"concentration": concentration},
    }
    parts = getattr(fedjax_priv.data, name)(labels, num_clients, seed, **options.get(name, {}))
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert len(parts) == num_clients
    assert sizes(parts).min() >= 1


@pytest.mark.parametrize("name", PARTITIONS)
def test_the_seed_and_nothing_else_decides(name):
    first, again, other = (PARTITIONS[name](LABELS, 30, seed) for seed in (7, 7, 8))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("gamma", [0.0, 0.25, 0.5, 1.0])
def test_gamma_is_the_share_that_is_dealt_without_regard_to_labels(gamma):
    """With ten clients the sorted samples of a label go to one client, which has 90 (1 - gamma) more of them."""
    counts = label_shares(gamma_similarity(LABELS, 10, 5, gamma=gamma), LABELS) * 90
    assert (sizes(gamma_similarity(LABELS, 10, 5, gamma=gamma)) == 90).all()
    assert abs(counts.max(axis=1) - (90 * (1 - gamma) + 9 * gamma)).max() <= 15 * (gamma > 0)


@given(st.integers(1, 300), st.data())
def test_iid_sizes_differ_by_one_at_most(num_samples, data):
    num_clients = data.draw(st.integers(1, num_samples))
    assert np.ptp(sizes(iid(np.zeros(num_samples, int), num_clients, 0))) <= 1


def test_iid_labels_are_hypergeometric():
    """A client of m samples has count variance m p (1-p) (N-m)/(N-1) a label; sorted by label it has far more."""
    draws = np.array([np.bincount(LABELS[iid(LABELS, 30, seed)[0]], minlength=10) for seed in range(300)])
    spread = ((draws - 3.0) ** 2).mean(axis=1)
    assert abs(spread.mean() - 30 * 0.09 * 870 / 899) < 5 * spread.std() / np.sqrt(300)


def test_shards_hold_one_label_each_where_they_divide_it():
    parts = shards(LABELS, 300, 0)  # a shard a client: 3 samples
    assert np.all(sizes(parts) == 3)
    assert all(len(np.unique(LABELS[part])) == 1 for part in parts)
    assert np.all(np.bincount([LABELS[part[0]] for part in parts]) == 30)


def test_shards_hold_two_labels_at_most_where_they_do_not():
    labels = np.repeat(np.arange(10), [70, 110] * 5)
    held = [len(np.unique(labels[part])) for part in shards(labels, 13, 0, num_shards=13)]
    assert max(held) == 2
    assert max(len(np.unique(labels[part])) for part in shards(labels, 13, 0, num_shards=39)) <= 6


def test_dirichlet_shares_vary_as_they_should():
    labels = np.repeat(np.arange(400), 500)
    parts = dirichlet(labels, 8, 1, concentration=0.5)
    assert_beta_variance(label_shares(parts, labels), 0.5, 8)


def test_dirichlet_goes_from_one_label_to_nearly_iid():
    labels = np.repeat(np.arange(10), 1000)

    def skew(concentration):
        shares = label_shares(dirichlet(labels, 5, 2, concentration=concentration), labels)
        return np.abs(shares - 0.2).sum(axis=1).mean() / 2

    spreads = [skew(concentration) for concentration in (1e-3, 0.1, 1.0, 10.0, 1e5)]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[0] > 0.75  # 0.8: a label is with one client
    assert spreads[-1] < 0.005


def test_quantity_skew_sizes_vary_as_they_should():
    labels = np.zeros(4_006, int)
    shares = np.array([sizes(quantity_skew(labels, 6, seed, concentration=0.7)) - 1 for seed in range(300)]) / 4_000
    assert_beta_variance(shares, 0.7, 6)


@pytest.mark.parametrize("partition", [dirichlet, quantity_skew])
def test_which_samples_a_client_gets_does_not_depend_on_their_order(partition):
    """The mean sample number of half of them is half of all; the first or the last half is 225 away from it."""
    first, _ = partition(np.zeros(900, int), 2, 4, concentration=1e4)
    error = np.sqrt((900**2 - 1) / 12 / len(first) * (900 - len(first)) / 899)
    assert abs(np.mean(first) - 449.5) < 5 * error < 50


@pytest.mark.parametrize("min_size", [1, 5, 18])
def test_dirichlet_tops_up_whoever_has_too_little(min_size):
    parts = dirichlet(LABELS, 50, 3, concentration=1e-4, min_size=min_size)
    assert sizes(parts).min() == min_size
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(900))


def test_those_with_most_give():
    parts = _top_up([np.arange(5), np.arange(5, 14), np.arange(0)], 2)
    assert [len(part) for part in parts] == [5, 7, 2]


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize(
    ("changed", "named"),
    each(num_clients=[0, -3, 901], seed=[-1], labels=[LABELS.reshape(30, 30), LABELS.astype(np.float32), LABELS[:0]]),
)
def test_a_bad_argument_is_named(name, changed, named):
    arguments = {"labels": LABELS, "num_clients": 30, "seed": 0} | changed
    with pytest.raises(ValueError, match=rf"^{named} must be [^\n]*$"):
        PARTITIONS[name](*arguments.values())


def test_the_largest_concentration_divides_evenly():
    assert set(sizes(quantity_skew(LABELS, 30, 0, concentration=1e100))) == {30}
    assert (np.bincount(LABELS[dirichlet(LABELS, 30, 0, concentration=1e100)[0]]) == 3).all()


def bad_options(partition, **values):
    return refused(*each(**values), by=lambda bad: partition(LABELS, 30, 0, **bad), pattern=r"^{} must be [^\n]*$")


test_bad_shards_are_named = bad_options(shards, num_shards=[301, 0, 930])
test_a_bad_concentration_is_named = bad_options(dirichlet, concentration=[0.0, 1e101, 1.7e308, float("inf")])
test_a_bad_min_size_is_named = bad_options(functools.partial(dirichlet, concentration=1.0), min_size=[31, 0])
test_a_bad_skew_is_named = bad_options(quantity_skew, concentration=[-1.0, 1.7e308, float("nan")])
test_a_bad_gamma_is_named = refused(
    (1.5, r"gamma must be a number in \[0, 1\], got 1.5$"),
    by=lambda gamma: gamma_similarity(LABELS, 10, 0, gamma=gamma),
)


def test_no_sample_of_the_fraction_is_lost_to_rounding():
    """100 * 0.29 is 28.999999999999996 in float64; with a client per sample, dealt ones are in front, then sorted."""
    labels = np.repeat(np.arange(10), 10)
    for gamma, dealt in ((0.29, 29), (0.289, 28), (0.33, 33), (1.0, 100)):
        order = np.concatenate(gamma_similarity(labels, 1, 3, gamma=gamma))
        mixed = np.random.default_rng(3).permutation(100)
        np.testing.assert_array_equal(order[:dealt], mixed[:dealt])
        assert (np.diff(labels[order[dealt:]]) >= 0).all()
        assert dealt == 100 or not np.array_equal(order[: dealt + 1], mixed[: dealt + 1])


def test_an_array_is_no_seed():
    with pytest.raises(ValueError, match=r"^seed must be an integer >= 0, got array\(1\)$"):
        inspect.unwrap(checked)(LABELS, 3, np.array(1))


def test_a_list_of_labels_is_refused_with_what_helps():
    with pytest.raises(
        ValueError, match=r"^labels must be an array of integers \[N\], got list: np.asarray makes one$"
    ):
        inspect.unwrap(iid)([0, 1, 2], 2, 0)


@pytest.mark.parametrize(("split", "options"), [
    (iid, {}), (shards, {"num_shards": 30}), (gamma_similarity, {"gamma": 0.3}), (dirichlet, {"concentration": 0.3}),
    (quantity_skew, {"concentration": 0.3}), (few_labels, {"labels_per_client": 2}), (lognormal, {}),
])  # fmt: skip
def test_a_series_of_pandas_is_read_by_position_whatever_its_index(split, options):
    moved = pandas.Series(LABELS, index=np.random.default_rng(1).permutation(LABELS.size))
    of = lambda labels: inspect.unwrap(split)(labels, 10, 0, **options)
    for got, want in zip(of(moved), of(LABELS), strict=True):
        np.testing.assert_array_equal(got, want)


def test_types_of_pandas_are_read_as_numbers_or_refused():
    """NumPy does not know them, and raises a TypeError that names no argument."""
    split = lambda labels: inspect.unwrap(iid)(labels, 10, 0)
    for dtype in ("Int64", "category"):
        for got, want in zip(split(pandas.Series(LABELS, dtype=dtype)), split(LABELS), strict=True):
            np.testing.assert_array_equal(got, want)
    words = pandas.Series(["a", "b", "a"], dtype="category")
    with pytest.raises(ValueError, match=r"^labels must be a 1-d array of integers, not empty, got object \(3,\)$"):
        inspect.unwrap(iid)(words, 2, 0)

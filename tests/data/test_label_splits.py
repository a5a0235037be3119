"""Partitions with few labels per client, against the published scripts written again."""

import numpy as np
import pytest
from refusals import each, refused

from fedjax_priv.data import few_labels, lognormal

LABELS = np.repeat(np.arange(10), 300)[np.random.default_rng(0).permutation(3000)]


def fedprox(labels, users, sigma, seed):
    """`data/mnist/generate_niid.py` of FedProx with its names, its 1,000 users made `users`, ours its draws."""
    mnist_data = [np.flatnonzero(labels == i).tolist() for i in range(10)]
    x, idx = [[] for _ in range(users)], np.zeros(10, dtype=np.int64)
    for user in range(users):
        for j in range(2):
            label = (user + j) % 10
            x[user] += mnist_data[label][idx[label] : idx[label] + 5]
            idx[label] += 5
    props = np.random.default_rng(seed).lognormal(0, sigma, (10, users // 10, 2))
    props = np.array([[[len(v) - users]] for v in mnist_data]) * props / np.sum(props, (1, 2), keepdims=True)
    for user in range(users):
        for j in range(2):
            label = (user + j) % 10
            num_samples = int(props[label, user // 10, j])
            if idx[label] + num_samples < len(mnist_data[label]):
                x[user] += mnist_data[label][idx[label] : idx[label] + num_samples]
                idx[label] += num_samples
    return x


@pytest.mark.parametrize("seed", range(3))
def test_lognormal_is_the_script_of_fedprox(seed):
    for mine, theirs in zip(lognormal(LABELS, 40, seed), fedprox(LABELS, 40, 2.0, seed), strict=True):
        assert sorted(mine) == sorted(theirs)
    other = lognormal(LABELS, 40, seed, log_deviation=0.1)
    assert [len(part) for part in other] != [len(part) for part in lognormal(LABELS, 40, seed)]


def test_lognormal_sizes_vary_greatly_and_nobody_shares_a_sample():
    parts = lognormal(LABELS, 40, 0)
    sizes, all_of_them = [len(part) for part in parts], np.concatenate(parts)
    assert min(sizes) >= 10 and max(sizes) > 5 * np.median(sizes)
    assert np.unique(all_of_them).size == all_of_them.size <= 3000
    assert all(set(LABELS[part]) == {client % 10, (client + 1) % 10} for client, part in enumerate(parts))


@pytest.mark.parametrize("k", [1, 2, 3, 10])
def test_few_labels(k):
    parts = few_labels(LABELS, 10, 1, labels_per_client=k)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(3000))
    assert all(len(set(LABELS[part])) == k and client in LABELS[part] for client, part in enumerate(parts))
    for label in range(10):  # its holders have as many
        counts = [int((LABELS[part] == label).sum()) for part in parts]
        assert np.ptp([count for count in counts if count]) <= 1
    again, other = (few_labels(LABELS, 10, seed, labels_per_client=k) for seed in (1, 2))
    assert all(map(np.array_equal, parts, again)) and not all(map(np.array_equal, parts, other))


def test_others_than_the_first_label_are_drawn_evenly():
    """A client's second label is each of nine with the same chance: chi-squared of 8 degrees is below 26 in 99.9%."""
    seconds = [(set(LABELS[few_labels(LABELS, 10, s, labels_per_client=2)[0]]) - {0}).pop() for s in range(270)]
    counts = np.bincount(seconds, minlength=10)[1:]
    assert ((counts - 30.0) ** 2 / 30).sum() < 26.1


test_a_bad_number_of_labels_is_named = refused(
    *each(labels_per_client=[0, 11], num_clients=[9]),
    by=lambda bad: few_labels(LABELS, **({"num_clients": 10, "seed": 0, "labels_per_client": 2} | bad)),
    pattern=r"^{} must be [^\n]*$",
)
test_a_bad_lognormal_is_named = refused(
    *each(log_deviation=[0.0, 51.0, 500.0], num_clients=[33]),
    by=lambda bad: lognormal(LABELS, **({"num_clients": 40, "seed": 0} | bad)),
    pattern=r"^{} must be [^\n]*$",
)


def test_the_largest_deviation_still_gives_shares():
    parts = lognormal(LABELS, 40, 0, log_deviation=50.0, min_per_label=1)
    assert min(map(len, parts)) >= 2 and len(np.unique(np.concatenate(parts))) == sum(map(len, parts))


def test_samples_that_do_not_suffice_are_named():
    with pytest.raises(ValueError, match=r"^min_per_label must be at most 37, to leave samples of each label, got 38$"):
        lognormal(LABELS, 40, 0, min_per_label=38)
    with pytest.raises(ValueError, match="labels must have a sample of 0 for each of 12 clients, got 11$"):
        few_labels(np.repeat(np.arange(2), 11), 12, 0, labels_per_client=2)

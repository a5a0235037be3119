"""How few users a server that lies reads: against a maximum flow, all lists of small groups, figures that are known."""

import itertools
from inspect import unwrap

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from fedjax_priv.theory import lying_server as theory
from helpers import refuses

SETTINGS = [
    (30, 16, 0, 4), (31, 16, 0, 2), (100, 67, 0, 51), (100, 67, 33, 2), (30, 16, 2, 1), (30, 21, 2, 15), (7, 5, 0, 5),
    (7, 5, 2, 2), (8, 8, 0, 8), (9, 5, 0, 2), (12, 9, 3, 5), (5, 2, 0, 1), (13, 9, 4, 2), (20, 14, 6, 4),
]  # fmt: skip


def can_read(num_clients, threshold, colluding, size):
    """Whether all honest users but `size` can be missing from enough honest lists: a flow from lists to users."""
    honest, needed = num_clients - colluding, threshold - colluding
    lists, outside = 1 + np.arange(honest), 1 + honest + np.arange(honest - size)
    sink = 1 + honest + len(outside)
    edges = [(0, one, num_clients - threshold) for one in lists]
    edges += [(one, user, 1) for i, one in enumerate(lists) for j, user in enumerate(outside) if i != j]
    edges += [(user, sink, needed) for user in outside]
    start, end, most = np.array(edges, np.int32).T
    flow = maximum_flow(csr_array((most, (start, end)), shape=(sink + 1, sink + 1)), 0, sink).flow_value
    return flow == needed * len(outside)


@pytest.mark.parametrize(("num_clients", "threshold", "colluding", "size"), SETTINGS)
def test_the_smallest_sum_is_that_of_a_maximum_flow(num_clients, threshold, colluding, size):
    assert theory.smallest_sum(num_clients, threshold, colluding) == size
    assert can_read(num_clients, threshold, colluding, size)
    assert size == 1 or not can_read(num_clients, threshold, colluding, size - 1)


def read_by_some_lists(honest, threshold, colluding, checked):
    """The fewest honest users in a sum that any lists open, and whether any open both secrets of a user: all lists.

    A list is a bit for each honest user, and contains all colluders; 0 is one that is refused. The first user's are
    those of users 0 to k, as users may be renamed.
    """
    accepted = [number for number in range(2**honest) if number.bit_count() + colluding >= threshold]
    told = [np.array([0, *(number for number in accepted if number >> user & 1)]) for user in range(honest)]
    told[0] = told[0][told[0] & (told[0] + 1) == 0]
    lists = np.stack([part.ravel() for part in np.meshgrid(*told, indexing="ij")])
    signers = (lists[:, None] == lists).sum(1) + colluding
    opens = (lists > 0) & (signers >= threshold if checked else True)
    seeds = np.stack([(opens & (lists >> user & 1 == 1)).sum(0) for user in range(honest)])
    seed_known, key_known = (number + colluding >= threshold for number in (seeds, opens.sum(0) - seeds))
    both, masked = seed_known & key_known, (~key_known).sum(0)
    summed = np.where((seed_known | key_known).all(0) & (masked > 0), masked, honest + 1)  # pairwise masks cancel
    return min(int(summed.min()), 1 if both.any() else honest + 1), bool(both.any())


@pytest.mark.parametrize("num_clients", [2, 3, 4, 5])
def test_of_all_lists_none_opens_a_smaller_sum(num_clients):
    for colluding, threshold in itertools.product(range(num_clients), range(2, num_clients + 1)):
        if colluding >= threshold or (num_clients - colluding, threshold) == (5, 2):  # 16^5 lists
            continue
        about = num_clients, threshold, colluding
        both = theory.opens_both(*about)
        free, checked = (
            read_by_some_lists(num_clients - colluding, threshold, colluding, one) for one in (False, True)
        )
        assert free == (theory.smallest_sum(*about), both)
        assert checked == (theory.smallest_checked_sum(*about), both)


def test_a_check_leaves_sums_of_all_honest_signers():
    assert theory.smallest_checked_sum(30, 21, 2) == 19 and theory.smallest_checked_sum(31, 16) == 16
    for num_clients, threshold, colluding, size in SETTINGS:
        both, checked = (f(num_clients, threshold, colluding) for f in (theory.opens_both, theory.smallest_checked_sum))
        assert checked >= size and (checked == 1) >= both and (not both or size == 1)


def test_the_default_threshold_stops_both_secrets_without_colluders_or_one_among_evenly_many():
    for num_clients in range(3, 40):
        default = num_clients // 2 + 1
        assert not theory.opens_both(num_clients, default)
        assert theory.opens_both(num_clients, default, 1) == (num_clients % 2 == 1)


def test_rounds_that_succeed_where_clients_train_no_model_twice():
    """Against runs of the rule itself, within 5 standard errors; where nobody refuses, in closed form."""
    rng, n, cohort, threshold, attempts, loss = np.random.default_rng(0), 12, 5, 4, 10, 0.3

    def run():
        last, model = np.full(n, -1), 0
        for _ in range(attempts):
            who = rng.choice(n, cohort, replace=False)
            fresh = who[last[who] != model]
            last[fresh] = model
            model += (rng.random(fresh.size) >= loss).sum() >= threshold
        return model

    found = np.array([run() for _ in range(2000)])
    expected = theory.expected_successes(n, cohort, threshold, attempts, loss=loss)
    assert abs(found.mean() - expected) < 5 * found.std() / len(found) ** 0.5
    free = theory.expected_successes(n, cohort, threshold, attempts, loss=loss, refuse=False)
    assert free == pytest.approx(attempts * (5 * 0.7**4 * 0.3 + 0.7**5)) and free > expected + 1
    assert theory.expected_successes(n, n, n, 7) == 7 and theory.expected_successes(n, n, 1, 7, loss=1.0) == 0


test_bad_arguments = refuses(
    theory.smallest_sum,
    (10, 11, "threshold must be in"),
    (10, 3, 3, "threshold must be in"),
    (10, 6, -1, "colluding must be an integer >= 0"),
    (0, 6, "num_clients must be an integer >= 1"),
)
test_bad_cohorts = refuses(
    theory.expected_successes,
    (50, 0, 8, 10, "cohort_size must be an integer >= 1, got 0"),
    (5, 10, 8, 10, "num_clients must be an integer >= 10, got 5"),
    (50, 10, 8, 0, "attempts must be an integer >= 1, got 0"),
    (2**40, 10, 8, 10, "num_clients must be an integer from 1 to 10000, got"),
    (50, 10, 8, 2**40, "attempts must be an integer from 1 to 1000000, got"),
    (5000, 10, 8, 5000, "attempts must be an integer from 1 to 4000, got 5000"),
)


@pytest.mark.parametrize(("given", "message"), [
    ({"refuse": "no"}, "refuse must be one of True, False, got 'no'"),
    ({"refuse": 2}, "refuse must be one of True, False, got 2"),
    ({"loss": np.array([0.1, 0.2])}, "loss must be one number in"),
])  # fmt: skip
def test_one_loss_and_a_flag(given, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        unwrap(theory.expected_successes)(50, 10, 8, 10, **given)

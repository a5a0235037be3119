"""The geometric median of rows of which a minority is anywhere, and of rows that are equal."""

import numpy as np
import pytest

from aggregators.references import RULES
from aggregators.test_rules import close, direction, some_rows
from fedjax_priv import aggregators


@pytest.mark.parametrize("far", [1e3, 1e9, 1e20])
def test_the_geometric_median_is_where_it_is_whatever_a_minority_sends(far):
    """A thousand times FoE, and more: 4 of 9 rows move it no further than in another place; five steps follow them."""
    rows = some_rows(10)[0]
    rows[:4] = -far * rows[4:].mean(0)
    there, same_pull = direction("geometric_median", rows), rows.astype(np.float64)
    same_pull[:4] *= 1e4 / far  # a far row pulls by its direction alone
    close(there, RULES["geometric_median"].reference(same_pull), tolerance=1e-3)
    honest = rows[4:].astype(np.float64)
    spread = np.linalg.norm(honest - honest.mean(0), axis=1)
    assert np.linalg.norm(there - honest.mean(0)) <= 2 * spread.sum()  # 2 / (M - 2 f) = 2
    assert np.linalg.norm(direction("weiszfeld", rows) - honest.mean(0)) > 0.1 * far, "the control"


def test_the_geometric_median_of_most_equal_rows_is_that_row():
    rows = some_rows(11)[0]
    rows[[0, 2, 4, 5, 8]] = rows[5]
    close(direction("geometric_median", rows), rows[5])


@pytest.mark.parametrize("far", [1e6, 1e15, 1e30])
def test_equal_rows_do_not_follow_the_others_at_all(far):
    """A billionth of the way is far, if the others choose how far they are; mixing makes honest rows equal."""
    rows = some_rows(11)[0]
    rows[:4] = far * rows[:1]
    mixed = aggregators.pre_aggregated(aggregators.nearest_neighbour_mixing(4), aggregators.geometric_median())
    close(np.asarray(mixed(rows)), rows[4:].mean(0), tolerance=1e-5)
    rows[4:] = rows[5]
    np.testing.assert_array_equal(direction("geometric_median", rows), rows[5])
    close(np.asarray(aggregators.geometric_median(1e-3)(rows)), rows[5], tolerance=4e-3)
    rows[4] += 1  # of eight rows four are equal, and the others differ
    np.testing.assert_array_equal(np.asarray(aggregators.geometric_median()(rows[1:])), rows[5])
    rows[4] = rows[3]  # or do not
    close(np.asarray(aggregators.geometric_median()(rows[1:] / far)), (rows[3] + rows[5]) / (2 * far))


def test_equal_rows_and_a_given_nu_or_missing_rows_that_equal_them():
    """Five rows pull back as far as they are from the point, in units of nu, and four pull with length 1 each."""
    rows = np.repeat([[0.0, 0.0], [9.0, 0.0]], [5, 4], axis=0)
    close(np.asarray(aggregators.geometric_median(2.0)(rows)), [2.0 * 4 / 5, 0])
    there = np.arange(9) > 0  # two halves, whatever the missing row holds
    close(np.asarray(aggregators.geometric_median()(rows, there)), [4.5, 0])

"""A rule called as a function of rows."""

import jax
import numpy as np
import pytest

from fedjax_priv import aggregators
from helpers import refuses

ROWS = np.random.default_rng(0).normal(size=(9, 4))
HOLED = np.where(np.arange(9)[:, None] == 5, [0.0, np.nan, 0.0, 0.0], ROWS)
BUCKETS = aggregators.pre_aggregated(aggregators.bucketing(2), aggregators.coordinate_median())
MIXED = aggregators.pre_aggregated(aggregators.nearest_neighbour_mixing(2), aggregators.coordinate_median())
median = aggregators.coordinate_median()


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_rows_in_numpy_in_lists_or_with_some_absent():
    close(median(ROWS), np.median(ROWS, 0))
    close(median(ROWS.tolist()), np.median(ROWS, 0))
    close(median(np.arange(9)[:, None]), [4])
    close(median(ROWS, np.arange(9) < 4), np.median(ROWS[:4], 0))
    close(median(HOLED), np.median(np.delete(ROWS, 5, 0), 0))
    assert (median(np.full((3, 4), np.inf)) == 0).all()


@pytest.mark.parametrize("first", [0, 1, 4])
def test_rows_lie_anywhere_and_stay_as_they_are(first):
    """Rows at an address that JAX reads in place, and at others; what is done to them later changes no direction."""
    space = np.zeros(64 + 9 * 4, np.float32)
    aligned = -space.ctypes.data % 64 // 4
    rows = space[aligned + first :][: 9 * 4].reshape(9, 4)
    for laid in (rows, rows.T.copy().T, rows[::-1]):
        laid[...] = HOLED
        direction = median(laid)
        np.testing.assert_array_equal(laid, HOLED.astype(np.float32))
        laid[...] = 7
        close(direction, np.median(np.delete(ROWS, 5, 0), 0))


def test_a_row_said_to_be_there_counts_whatever_it_holds():
    """NaN is the largest value; only rows not present are left out."""
    close(median(HOLED, np.ones(9, bool)), np.median(np.where(np.isnan(HOLED), np.inf, HOLED), 0))


def test_a_rule_that_draws_asks_for_a_key_and_no_other_does():
    with pytest.raises(ValueError, match="key must be given"):
        BUCKETS(ROWS)
    means = np.asarray([BUCKETS(ROWS, key=jax.random.key(seed)) for seed in range(4)])
    assert len(np.unique(means, axis=0)) > 1
    close(BUCKETS(ROWS, key=jax.random.key(0)), means[0])
    assert np.isfinite(MIXED(ROWS)).all()


def test_steps_before_a_rule_are_called_alone_too():
    """The rows that are left, as a loop in NumPy makes them; absent ones are left out before."""
    here = np.delete(ROWS, 5, 0)
    far = ((here[:, None] - here[None]) ** 2).sum(2)
    mixed = [here[np.argsort(row)[:6]].mean(0) for row in far]
    close(aggregators.nearest_neighbour_mixing(2)(HOLED), mixed)
    close(aggregators.nearest_neighbour_mixing(2)(ROWS, np.arange(9) != 5), mixed)
    norms = np.linalg.norm(here, axis=1, keepdims=True)
    close(aggregators.clipping(1.0)(HOLED.tolist()), here * np.minimum(1, 1 / norms))
    buckets = aggregators.bucketing(3)(HOLED, key=jax.random.key(1))
    assert buckets.shape == (3, 4)  # of 3, 3 and 2 of the 8 rows
    close(np.average(buckets, axis=0, weights=[3, 3, 2]), here.mean(0))
    with pytest.raises(ValueError, match="key must be given"):
        aggregators.bucketing(3)(HOLED)
    with pytest.raises(ValueError, match=r"^rows must have shape \[g, d\] and not be empty, got \(4,\)"):
        aggregators.clipping(1.0)(ROWS[0])


def test_each_call_starts_afresh_and_is_compiled_once():
    rule, traces = aggregators.centered_clipping(0.3, 1), []
    counted = rule._replace(apply=lambda *args: traces.append(args) or rule.apply(*args))
    close(counted(ROWS), counted(ROWS))
    assert len(traces) == 1
    together = jax.vmap(rule)(np.float32([ROWS, 2 * ROWS]))
    close(together[1], rule(2 * ROWS))


test_other_shapes_are_refused = refuses(
    median,
    (ROWS[0], r"rows must have shape \[g, d\] and not be empty, got \(4,\)"),
    (ROWS, np.ones(4, bool), r"present must have shape \(9,\), one bool per row, got bool \(4,\)"),
)


def test_numbers_of_rows_are_no_mask():
    """0 would be absent, and all others present."""
    with pytest.raises(ValueError, match=r"^present must have shape \(3,\), one bool per row, got int32 \(3,\)$"):
        median(np.ones((3, 2), np.float32), [0, 1, 2])


TOO_FEW = [
    (aggregators.trimmed_mean(2), 2, 5), (aggregators.krum(2), 4, 5), (aggregators.mda(2), 1, 5),
    (aggregators.smea(2), 1, 5), (aggregators.bulyan(1), 4, 5), (aggregators.multi_krum(1, selected=6), 4, 7),
    (aggregators.nearest_neighbour_mixing(2), 4, 5),
    (aggregators.pre_aggregated(aggregators.bucketing(2), aggregators.krum(1)), 4, 7),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "present", "least"), TOO_FEW, ids=range(len(TOO_FEW)))
def test_a_rule_or_step_called_on_too_few_rows_says_how_many_it_needs(rule, present, least):
    """Rows that are absent do not count; inside a program the direction is NaN."""
    said = f"^rows must be at least {least} that are present for this rule or step, got {present}$"
    with pytest.raises(ValueError, match=said):
        rule(ROWS[:present], key=jax.random.key(0))
    with pytest.raises(ValueError, match=said):
        rule(ROWS, np.arange(9) < present, key=jax.random.key(0))


@pytest.mark.parametrize("rule", [aggregators.trimmed_mean(2), aggregators.mda(2)], ids=["trimmed_mean", "mda"])
def test_inside_a_program_the_direction_of_too_few_rows_is_nan(rule):
    assert np.isnan(jax.jit(lambda rows: rule(rows))(ROWS[:1])).all()


def test_krum_of_enough_rows_but_for_its_guarantee_has_a_direction():
    assert aggregators.krum(2).most_byzantine(5) == 0 and np.isfinite(aggregators.krum(2)(ROWS[:5])).all()

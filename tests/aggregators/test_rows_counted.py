"""Rows that are not finite, and how they are counted; and rows on which the worst case of many rules is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aggregators import references
from fedjax_priv import aggregators
from fedjax_priv.base import Received

G, D = 9, 7
KEY = jax.random.key(0)


def all_present(rule):
    return lambda rows: rule.apply(KEY, rule.init(rows.shape[1]), Received(rows, jnp.ones(len(rows), jnp.int32)))[0]


CAF = jax.jit(all_present(references.RULES["caf"].made))
BULYAN = jax.jit(jax.vmap(all_present(aggregators.bulyan(1))))


def test_caf_counts_rows_that_are_not_finite_among_those_it_may_leave_out():
    """It stops sooner than it would of the finite rows alone."""
    sooner = 0
    for seed in range(12):
        rows = np.concatenate([np.random.default_rng(seed).normal(size=(G - 1, D)), np.full((1, D), np.inf)])
        found = CAF(jnp.asarray(rows, jnp.float32))
        alone, expected = (references.caf(rows[:-1], num_rows=number) for number in (None, G))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
        sooner += np.abs(alone - expected).max() > 1e-2
    assert sooner, "the control"


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_a_row_that_moves_no_centre_counts_among_the_rows(bad):
    rows = np.float32([[3.0], [6.0], [bad]])
    for rule in (
        aggregators.centered_clipping(10.0, 1, "zero"),
        aggregators.sequential_centered_clipping(10.0, size=3),
    ):
        np.testing.assert_allclose(rule(rows, np.ones(3, bool), key=KEY), [3.0], rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_bulyan_picks_a_row_that_is_far_after_all_others(bad):
    """Also where the last pick of f = 1 counts no neighbour and would take the first row that is left."""
    rows = np.random.default_rng(1).normal(size=(8, 7, 2)).astype(np.float32)
    rows[:, -1] = bad
    first, last = BULYAN(rows[:, [6, 0, 1, 2, 3, 4, 5]]), BULYAN(rows)
    np.testing.assert_allclose(first, last, rtol=1e-5, atol=1e-5)


TRAP = np.array([1.0, 1.0, -1.0, -1.0, 1e-3, 1e-3, 1e-3], np.float32)[:, None]
"""Two Byzantine rows, two honest ones as far on the other side, and the others nearer to the Byzantine ones."""


@pytest.mark.parametrize("name", ["mda", "smea", "meamed", "nearest_neighbour_mixing"])
def test_rules_that_keep_all_but_f_rows_are_as_bad_as_the_trap_of_mixing(name):
    """The squared distance from the honest mean is 4 f / (n - 2 f) times the honest variance."""
    rule = references.RULES[name].made
    honest, found = TRAP[2:].astype(np.float64), float(rule(TRAP)[0])
    assert (found - honest.mean()) ** 2 / honest.var() == pytest.approx(4 * 2 / 3, rel=1e-2)
    median = float(aggregators.coordinate_median()(TRAP)[0])
    assert (median - honest.mean()) ** 2 / honest.var() < 1, "the control"

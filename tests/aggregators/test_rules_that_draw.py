"""Rules that draw coordinates or an order: every direction is one of the few that a draw can give, and all occur."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aggregators import references
from fedjax_priv import aggregators
from fedjax_priv.base import Received
from fedjax_priv.layers.sparsification import Sparse

ROWS = np.random.default_rng(3).normal(size=(5, 6)).astype(np.float32)
X = ROWS.astype(np.float64)
KEYS = jax.random.split(jax.random.key(0), 400)


def after(order, size=2):
    return references.sequential(X, list(order), 0.9, size)


def dnc_on(columns, left_out=1):
    part = X[:, list(columns)] - X[:, list(columns)].mean(0)
    along = part @ np.linalg.svd(part)[2][0]
    return X[np.argsort(along**2)[: len(X) - left_out]].mean(0)


PAIRS = [*itertools.combinations(range(6), 2)]
CASES = {
    "sequential_centered_clipping": (
        aggregators.sequential_centered_clipping(0.9, size=2), [after(o) for o in itertools.permutations(range(5))],
    ),
    "dnc": (aggregators.dnc(1, coordinates=2), [dnc_on(pair) for pair in PAIRS]),
    "sign_guard": (
        aggregators.sign_guard(0.5), [references.sign_guard(X, slice(start, start + 3)) for start in range(4)],
    ),
}  # fmt: skip


def directions(rule, rows: np.ndarray | Sparse = ROWS, count=None):
    count = jnp.ones(len(rows), jnp.int32) if count is None else count
    received = Received(jax.tree.map(jnp.asarray, rows), count)
    return np.asarray(jax.jit(jax.vmap(lambda key: rule.apply(key, rule.init(6), received)[0]))(KEYS))


def distinct(rows):
    return np.unique(np.round(rows, 4), axis=0)


@pytest.mark.parametrize("name", CASES)
def test_every_draw_and_only_draws(name):
    rule, possible = CASES[name]
    found, possible = directions(rule), distinct(np.array(possible))
    away = np.abs(found[:, None] - possible).max(2)
    assert away.min(1).max() < 2e-4 and len(possible) > 1
    assert (away.min(0) < 2e-4).all(), "each occurs"


OUTLIER = ROWS + 50 * (np.arange(5) == 0)[:, None]
"""The first row stands out wherever one looks."""


@pytest.mark.parametrize("step", [(), (aggregators.clipping(1e3),)], ids=["alone", "behind a step"])
@pytest.mark.parametrize(
    ("rule", "rows", "possible"),
    [
        (CASES["sign_guard"][0], ROWS, CASES["sign_guard"][1]),
        (aggregators.dnc(1, coordinates=1), OUTLIER, [X[1:].mean(0)]),
    ],
    ids=["sign_guard", "dnc"],
)
def test_places_that_are_not_used_are_not_drawn(rule, rows, possible, step):
    """Of 24 places six are coordinates, with others between them: draws are those of the six alone."""
    position = np.full(24, 6)
    position[[0, 1, 7, 8, 9, 10]] = range(6)
    padded = np.concatenate([rows, np.zeros((5, 1))], 1)[:, position].astype(np.float32)
    rule = aggregators.on_coordinates(aggregators.pre_aggregated(*step, rule) if step else rule, 6)
    sparse = Sparse(jnp.asarray(padded), jnp.broadcast_to(position, padded.shape))
    found = directions(rule, sparse, jnp.ones(5, jnp.int32))
    away = np.abs(found[:, None] - distinct(np.array(possible))).max(2)
    assert away.min(1).max() < 2e-4 and (away.min(0) < 2e-4).all()


def test_controls():
    """Other sizes, other counts of rows left out and another start give directions that are not among them."""
    for wrong, name in (
        (aggregators.sequential_centered_clipping(0.9, size=3), "sequential_centered_clipping"),
        (aggregators.dnc(1, removed=2, coordinates=2), "dnc"),
        (aggregators.sign_guard(1 / 3), "sign_guard"),
    ):
        away = np.abs(directions(wrong)[:, None] - np.array(CASES[name][1])).max(2)
        assert away.min(1).max() > 1e-2, name


def test_missing_rows_are_in_no_bucket():
    rows = np.vstack([np.full((1, 6), np.nan), ROWS, np.full((1, 6), np.nan)]).astype(np.float32)
    rule, possible = CASES["sequential_centered_clipping"]
    found = directions(rule, rows, jnp.asarray([0, 1, 1, 1, 1, 1, 0]))
    assert np.abs(found[:, None] - np.array(possible)).max(2).min(1).max() < 1e-5


def test_a_bucket_of_all_rows_is_one_step_of_centered_clipping_also_from_the_last_direction():
    one, all_at_once = aggregators.centered_clipping(0.4, 1), aggregators.sequential_centered_clipping(0.4, size=5)
    received, state = Received(jnp.asarray(ROWS), jnp.ones(5, jnp.int32)), jnp.linspace(-1, 1, 6)
    for rule in (one, all_at_once):
        direction, kept = rule.apply(KEYS[0], state, received)
        np.testing.assert_array_equal(direction, kept)
        np.testing.assert_allclose(direction, references.centered_clipping(X, 0.4, 1, np.asarray(state)), rtol=1e-5)


def test_the_center_moves_no_further_than_a_radius_a_bucket():
    huge = np.where(np.arange(5)[:, None] < 4, 1e6, ROWS).astype(np.float32)
    moved = np.linalg.norm(directions(CASES["sequential_centered_clipping"][0], huge), axis=1)
    assert 1.5 < moved.max() <= 3 * 0.9 * (1 + 1e-5)


def test_rows_that_no_pass_of_dnc_keeps_give_no_direction():
    """One of two rows is left by each pass; several passes on other coordinates may leave different ones."""
    rows = np.array([[3.0, 0, 0, 0, 0, 0], [0, 3, 0, 0, 0, 0], [0, 0, 3, 0, 0, 0]], np.float32)
    found = directions(aggregators.dnc(1, removed=2, coordinates=1, passes=3), rows)
    none = np.isnan(found).all(1)
    assert none.any() and not none.all() and np.isfinite(found[~none]).all()


def test_no_direction_for_dnc_if_more_rows_are_not_finite_than_it_leaves_out():
    rows = ROWS.copy()
    rows[[0, 3], 5] = np.inf  # a coordinate that is not always drawn
    rule = aggregators.dnc(1, coordinates=2)
    assert np.isnan(directions(rule, rows)).all()
    rows[3] = ROWS[3]
    assert np.isfinite(directions(rule, rows)).all()


@pytest.mark.parametrize("passes", [1, 2])
def test_dnc_averages_a_row_that_is_far_where_it_does_not_look(passes):
    """One Byzantine row, the mean of the others but in one of six coordinates, of which a pass draws two."""
    rows = ROWS.copy()
    rows[0] = rows[1:].mean(0)
    rows[0, 4] = 1e6
    found = directions(aggregators.dnc(1, coordinates=2, passes=passes), rows)
    missed = np.linalg.norm(found, axis=1) > 1e4
    expected = (1 - 2 / 6) ** passes
    assert abs(missed.mean() - expected) < 5 * (expected * (1 - expected) / len(KEYS)) ** 0.5
    assert np.linalg.norm(directions(aggregators.dnc(1, passes=passes), rows), axis=1).max() < 10, "the control"


def test_sign_guard_leaves_out_what_is_not_finite_or_of_another_length():
    rows = np.vstack([ROWS, ROWS[:2] * 40, ROWS[2:3] / 40, np.full((1, 6), np.nan), np.full((1, 6), np.inf)])
    alike = np.abs(rows).astype(np.float32)  # all in one cluster
    found = np.asarray(aggregators.sign_guard(1.0)(alike, np.ones(10, bool)))
    lengths = np.linalg.norm(alike.astype(np.float64), axis=1)
    middle = np.median(np.where(np.isfinite(lengths), lengths, np.inf))
    expected = references.clipped(alike[:5].astype(np.float64), middle).mean(0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_steps_before_a_rule_draw_apart():
    def noisy(key, rows, ok):
        return rows + jax.random.normal(key, rows.shape), ok

    step = aggregators.clipping(1.0)._replace(apply=noisy)
    once, twice = (aggregators.pre_aggregated(*[step] * k, aggregators.mean()) for k in (1, 2))
    first, both = (np.asarray(rule(np.zeros((4, 6)), key=KEYS[0])) for rule in (once, twice))
    assert np.abs(both - 2 * first).min() > 1e-3, "the second step does not repeat the first one's draw"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_of_so_few_rows_is_a_cluster_of_its_own(optimised, number):
    """Half of them is a row itself, at distance 0, though an optimised program finds the shares of signs again."""
    rule = aggregators.sign_guard(1.0)
    for rows in np.random.default_rng(1).normal(size=(20, number, 3)).astype(np.float32):
        np.testing.assert_allclose(rule(rows), references.sign_guard(rows.astype(np.float64)), rtol=1e-5)

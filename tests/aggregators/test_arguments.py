"""Bad arguments, traced arguments, states and keys."""

from inspect import unwrap as unwrapped

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aggregators.references import centered_clipping
from fedjax_priv import aggregators, attacks
from fedjax_priv.aggregators import (
    arc,
    bucketing,
    clipping,
    coordinate_median,
    krum,
    mda,
    mean,
    pre_aggregated,
    trimmed_mean,
)
from fedjax_priv.base import Received
from helpers import refuses

KEY = jax.random.key(1)
ROWS = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)


def received(rows=ROWS, count=None):
    return Received(jnp.asarray(rows), jnp.ones(len(rows), jnp.int32) if count is None else jnp.asarray(count))


test_mistakes_are_named = refuses(
    lambda make: make(),
    (lambda: unwrapped(coordinate_median)("upper"), "even"),
    (lambda: trimmed_mean(), "num_byzantine and fraction"),
    (lambda: trimmed_mean(1, fraction=0.1), "num_byzantine and fraction"),
    (lambda: trimmed_mean(-1), "num_byzantine"),
    (lambda: trimmed_mean(fraction=0.5), "fraction"),
    (lambda: trimmed_mean(fraction=-0.1), "fraction"),
    (lambda: aggregators.weiszfeld(0), "steps"),
    (lambda: aggregators.weiszfeld(nu=0.0), "nu"),
    (lambda: unwrapped(aggregators.weiszfeld)(start="median"), "start"),
    (lambda: aggregators.geometric_median(nu=0.0), "nu"),
    (lambda: krum(-1), "num_byzantine"),
    (lambda: unwrapped(aggregators.multi_krum)(1, neighbours="all"), "neighbours"),
    (lambda: aggregators.multi_krum(1, selected=0), "selected"),
    (lambda: aggregators.centered_clipping(0.0), "radius"),
    (lambda: aggregators.centered_clipping(steps=0), "steps"),
    (lambda: unwrapped(aggregators.centered_clipping)(start="mean"), "start"),
    (lambda: aggregators.monna(1, pivot=-1), "pivot"),
    (lambda: aggregators.monna(1, pivot=6).apply(KEY, (), received()), "pivot"),
    (lambda: aggregators.fltrust(pivot=-1), "pivot"),
    (lambda: aggregators.fltrust(pivot=6).apply(KEY, (), received()), "pivot"),
    (lambda: aggregators.bulyan(-1), "num_byzantine"),
    (lambda: aggregators.dnc(-1), "num_byzantine"),
    (lambda: aggregators.dnc(1, removed=-1), "removed"),
    (lambda: aggregators.dnc(1, coordinates=0), "coordinates"),
    (lambda: aggregators.dnc(1, passes=0), "passes"),
    (lambda: aggregators.sign_guard(0.0), "fraction"),
    (lambda: aggregators.sequential_centered_clipping(size=0), "size"),
    (lambda: aggregators.sequential_centered_clipping(-1.0, size=2), "radius"),
    (lambda: aggregators.norm_trimming(0.5), "fraction"),
    (lambda: aggregators.filter_l2(-1.0), "sigma"),
    (lambda: aggregators.filter_l2(1.0, bound=0.0), "bound"),
    (lambda: aggregators.filter_l2(1.0, fraction=1.5), "fraction"),
    (lambda: aggregators.filter_l2(1.0, block=0), "block"),
    (lambda: unwrapped(aggregators.caf)(1, compared="none"), "compared"),
    (lambda: bucketing(0), "size"),
    (lambda: clipping(0.0), "radius"),
    (lambda: arc(-1), "num_byzantine"),
    (lambda: aggregators.nearest_neighbour_mixing(-1), "num_byzantine"),
    (lambda: pre_aggregated(krum(1)), "pre-aggregators, then one aggregator"),
    (lambda: pre_aggregated(bucketing(2)), "pre-aggregators, then one aggregator"),
    (lambda: pre_aggregated(arc(1), bucketing(2), aggregators.monna(1)), "must not make other rows"),
    (lambda: pre_aggregated(bucketing(2), pre_aggregated(arc(1), aggregators.fltrust())), "must not make other rows"),
    (lambda: pre_aggregated(bucketing(2), aggregators.one_of(0, [mean(), aggregators.fltrust()])), "other rows"),
    (
        lambda: aggregators.one_of(0, [mean(), aggregators.monna(1, pivot=2), aggregators.fltrust(pivot=3)]),
        "rules must trust the same row, if any, got rules that trust rows .2, 3.",
    ),
    *((lambda make=make: make(-1), "num_byzantine") for make in (mda, aggregators.smea, aggregators.caf)),
    *(
        (
            lambda make=make: jax.eval_shape(make(9).apply, KEY, (), received(np.ones((32, 2), np.float32))),
            "at most 50000 subsets",
        )
        for make in (mda, aggregators.smea)
    ),
)


test_a_rule_that_was_not_made_is_named = refuses(
    lambda make: make(),
    (
        lambda: unwrapped(aggregators.on_coordinates)(mean, 4),
        "rule must be an Aggregator, .* got mean, which may have to",
    ),
    (lambda: unwrapped(aggregators.in_sketch)(mean, 4, 2), "rule must be an Aggregator"),
    (lambda: unwrapped(aggregators.one_of)(0, [mean(), mean]), "rules.1. must be an Aggregator"),
    (lambda: aggregators.one_of(0, [mean()._replace(needs_rows=False)]), "rules.0. must be a rule that needs rows"),
    (
        lambda: aggregators.one_of(0, [mean()._replace(tells=dict)]),
        "rules.0. must be a rule that .* tells clients nothing",
    ),
    (lambda: unwrapped(aggregators.from_host)(3), "function must be a function of 1 argument"),
    (lambda: attacks.optimal_foe(mean), "respond must be a function of 1 argument, .* got mean, which may have to be"),
    (lambda: attacks.furthest(mean(), lambda rows: rows), "line must be a function of 2 arguments"),
    (lambda: unwrapped(attacks.before_groups)(attacks.optimal_foe, mean, 3), "rule must be an Aggregator"),
    (lambda: attacks.before_groups(attacks.alie(), mean(), 3), "search must be a function of 1 argument"),
    (lambda: attacks.one_of(0, [attacks.foe(), attacks.foe]), "attacks.1. must be a function of 4 arguments"),
)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: aggregators.geometric_median(nu=x),
        lambda x: aggregators.centered_clipping(radius=x),
        lambda x: aggregators.sequential_centered_clipping(radius=x, size=6),
        lambda x: aggregators.filter_l2(x),
        lambda x: pre_aggregated(clipping(x), mean()),
    ],
    ids=["geometric_median", "centered_clipping", "sequential_centered_clipping", "filter_l2", "clipping"],
)
def test_traced_arguments(make):
    """A traced argument gives the same direction as a number; out of range the direction is NaN."""

    def direction(x):
        return make(x).apply(KEY, make(x).init(5), received())[0]

    traced = jax.jit(direction)
    np.testing.assert_allclose(traced(0.5), jax.jit(lambda: direction(0.5))(), rtol=1e-5)
    assert np.isnan(traced(-1.0)).all()


def test_centered_clipping_starts_where_it_was():
    rule = aggregators.centered_clipping(0.3, 2)
    state, expected = rule.init(5), np.zeros(5)
    for t in range(3):
        found, state = jax.jit(rule.apply)(KEY, state, received(ROWS + t))
        expected = centered_clipping((ROWS + t).astype(np.float64), 0.3, 2, expected)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    found, kept = jax.jit(rule.apply)(KEY, state, received(count=np.zeros(6, int)))
    assert (found == 0).all() and (kept == state).all()


def test_centered_clipping_moves_no_further_than_its_steps():
    rule = aggregators.centered_clipping(0.5, 5)
    rows = np.full((4, 5), 1e15, np.float32)
    rows[1], rows[2] = np.nan, np.inf
    apply = jax.jit(lambda rows: rule.apply(KEY, rule.init(5), received(rows))[0])
    assert 0.5 <= np.linalg.norm(apply(rows)) <= 2.5 + 1e-5
    rows[[0, 3]] = 1e30
    assert (apply(rows) == 0).all()


@pytest.mark.parametrize(
    ("rule", "most"),
    [
        (aggregators.centered_clipping(0.5, 3), 2 * 3 * 0.5 * 2 / 6),
        (aggregators.sequential_centered_clipping(0.5, size=1), 2 * 0.5 * 2),
    ],
    ids=["all rows at once", "buckets"],
)
def test_rows_move_centered_clipping_no_further_than_their_share(rule, most):
    """Two of six rows are exchanged; honest rows are out of reach, so no distance from them is bounded."""
    direction = jax.jit(lambda rows: rule(rows, key=KEY))
    away, reached = np.asarray(direction(ROWS + 100)), []
    for bad in np.random.default_rng(0).normal(size=(40, 2, 1, 5)) * 10.0 ** np.arange(-1, 3)[:, None]:
        for two in np.swapaxes(bad, 0, 1):
            moved = direction(np.vstack([two, ROWS[2:] + 100]).astype(np.float32))
            reached.append(np.linalg.norm(moved - away))
    assert 0.4 * most < max(reached) <= most * (1 + 1e-5)
    assert np.linalg.norm(away - ROWS.mean(0) - 100) > 200


def test_a_row_that_pulls_nowhere_still_counts_in_centered_clipping():
    rows = np.concatenate([ROWS, np.full((1, 5), np.inf, np.float32)])
    rule = aggregators.centered_clipping(100.0, 1, "zero")
    np.testing.assert_allclose(jax.jit(rule.apply)(KEY, (), received(rows))[0], ROWS.sum(0) / 7, rtol=1e-5, atol=1e-6)


def test_a_pivot_that_is_missing_gives_no_direction():
    apply = jax.jit(aggregators.monna(1, pivot=2).apply)
    for lost, there in ((2, False), (3, True)):
        count = np.ones(6, int)
        count[lost] = 0
        assert np.isfinite(apply(KEY, (), received(count=count))[0]).all() == there


@pytest.mark.parametrize("present", [(1, 1, 1, 1, 1, 1, 1), (0, 1, 1, 0, 1, 1, 1), (0, 0, 0, 1, 0, 0, 0)])
def test_buckets_are_random_and_hold_each_row_once(present):
    ok, g = np.array(present, bool), len(present)
    rows = np.where(ok[:, None], np.eye(g, dtype=np.float32), np.nan)
    step = jax.jit(bucketing(2).apply)
    seen = set()
    for seed in range(12):
        means, there = step(jax.random.key(seed), jnp.asarray(rows), jnp.asarray(ok))
        assert means.shape == (4, g) and there.sum() == -(-ok.sum() // 2) == bucketing(2).rows_left(int(ok.sum()))
        means = np.asarray(means)[np.asarray(there)]
        sizes = (means > 0).sum(1)
        np.testing.assert_array_equal((means * sizes[:, None]).sum(0), ok)  # each row once, in equal parts
        assert (np.sort(sizes)[::-1] == ([2] * (ok.sum() // 2) + [1] * (ok.sum() % 2))).all()
        seen.add(means.tobytes())
    assert len(seen) > 1 or ok.sum() == 1


def test_a_hostile_row_spoils_its_own_bucket_only():
    rows = ROWS.copy()
    rows[2, 1] = np.inf
    means, _ = jax.jit(bucketing(2).apply)(KEY, jnp.asarray(rows), jnp.ones(6, bool))
    assert np.isinf(means).sum() == 1 and np.isfinite(means).all(1).sum() == 2


def test_mixing_leaves_a_row_that_is_infinitely_far_where_it_was():
    rows = jnp.asarray(ROWS).at[4, 0].set(jnp.nan)
    mixed, _ = jax.jit(aggregators.nearest_neighbour_mixing(2).apply)(KEY, rows, jnp.ones(6, bool))
    assert np.isnan(mixed).any(1).tolist() == [False] * 4 + [True, False]


def test_values_equally_far_from_the_median_count_in_part():
    rows = np.array([[-1.0], [-1.0], [0.0], [1.0], [0.5]], np.float32)
    found, _ = jax.jit(aggregators.meamed(2).apply)(KEY, (), received(rows))
    np.testing.assert_allclose(found, [(0.0 + 0.5 + (-1 - 1 + 1) / 3) / 3], rtol=1e-6)


def test_a_composition_tolerates_what_its_parts_tolerate():
    buckets = pre_aggregated(bucketing(2), krum(3))
    assert [buckets.most_byzantine(m) for m in (5, 10, 12, 13, 32)] == [-1, -1, -1, 0, 3]
    assert pre_aggregated(bucketing(3), coordinate_median()).most_byzantine(9) == 1
    assert pre_aggregated(clipping(1.0), mean()).most_byzantine(9) == 0
    assert pre_aggregated(arc(2), coordinate_median()).most_byzantine(9) == 2
    assert pre_aggregated(arc(2), coordinate_median()).most_byzantine(4) == -1


def test_a_composition_passes_keys_and_state_on():
    rule = pre_aggregated(bucketing(2), aggregators.centered_clipping(0.3, 1))
    apply = jax.jit(lambda key: rule.apply(key, rule.init(5), received()))
    first, states = zip(*(apply(jax.random.key(seed)) for seed in range(4)), strict=True)
    assert len({np.asarray(one).tobytes() for one in first}) > 1
    assert states[0].shape == (5,)


def test_clipping_shortens_rows_whose_squares_overflow():
    rows = jnp.asarray(ROWS).at[0].set(1e30).at[1].set(1e18).at[2, 0].set(jnp.inf)
    norm = np.linalg.norm(jax.jit(clipping(1.5).apply)(KEY, rows, jnp.ones(6, bool))[0], axis=1)
    expected = np.minimum(1.5, np.linalg.norm(np.asarray(rows, np.float64), axis=1))
    np.testing.assert_allclose(norm, [1.5, 1.5, np.nan, *expected[3:]], rtol=1e-5)


@pytest.mark.parametrize("step", [clipping(1.5), arc(1), arc(2)], ids=["clipping", "arc", "arc of two"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_no_row_after_clipping(step, bad):
    """Nor are those of its coordinates that are; a norm beyond float32 is one, if the row is finite."""
    rows = jnp.asarray(ROWS).at[3, 0].set(bad).at[4].set(3e38).at[5].set(-3e38)
    left = np.asarray(jax.jit(step.apply)(KEY, rows, jnp.ones(6, bool))[0])
    assert np.isnan(left[3]).all() and np.isfinite(left[[0, 1, 2, 4, 5]]).all()


def test_a_fraction_that_is_an_integer_but_for_rounding():
    assert trimmed_mean(fraction=0.29).most_byzantine(100) == 29
    assert trimmed_mean(fraction=7 / 16).most_byzantine(16) == 7
    assert aggregators.norm_trimming(0.29).most_byzantine(100) == 29

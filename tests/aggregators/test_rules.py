"""All rules against their references, and the laws they have in common."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregators import references
from aggregators.references import COVERED_ELSEWHERE, RULES, F
from fedjax_priv import aggregators
from fedjax_priv.aggregators.by_name import TRUSTING
from fedjax_priv.aggregators.numerics.row_distances import FAR, geometry
from fedjax_priv.base import Received

G, D = 9, 7
KEY = jax.random.key(0)
SEEDS = st.integers(0, 2**16)
ALL = np.ones(G, int)


@functools.cache
def jitted(name):
    rule = RULES[name].made
    return jax.jit(lambda rows, count: rule.apply(KEY, rule.init(D), Received(rows, count))[0])


def direction(name, rows, count=ALL):
    """Missing rows hold NaN."""
    rows = np.where(count[:, None] > 0, np.asarray(rows, np.float32), np.nan)
    return np.asarray(jitted(name)(jnp.asarray(rows), jnp.asarray(count)))


def some_rows(seed, scale=1.0):
    """Float32 rows with a common offset, and counts of uploads, at least one of them > 0."""
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(G, D)) * scale + rng.normal(size=D)).astype(np.float32)
    count = np.where(rng.permutation(G) < rng.integers(1, G + 1), rng.integers(1, 4, G), 0)
    return rows, count


def enough(name, count):
    return RULES[name].tolerates((count > 0).sum()) >= 0


def there(rows, count):
    return np.asarray(rows, np.float64)[count > 0]


def close(a, b, scale=1.0, tolerance=1e-5):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=tolerance * scale)


def alike(a, b, scale=1.0):
    """Compares two runs in float32: weights found pass by pass amplify rounding."""
    close(a, b, scale, 1e-4)


def keeping(law):
    return [name for name, rule in RULES.items() if law in rule.keeps]


def test_every_public_rule_is_in_the_table():
    assert {name.split(",")[0] for name in RULES} | COVERED_ELSEWHERE == set(aggregators.__all__)


@pytest.mark.parametrize("name", RULES)
def test_reference(name):
    """Equal to the reference with any rows missing; NaN with too few rows."""
    sizes = set()
    for seed in range(24):
        rows, count = some_rows(seed)
        if name in TRUSTING:
            count[0] = 1
        if enough(name, count):
            sizes.add((count > 0).sum())
            reference, x = RULES[name].reference, there(rows, count)
            found, expected = direction(name, rows, count), reference(x)
            if not np.allclose(found, expected, rtol=1e-5, atol=1e-5):
                close(found, expected, tolerance=references.rounding(reference, x))
        else:
            assert np.isnan(direction(name, rows, count)).all()
    assert len(sizes) >= 4
    assert (direction(name, rows, 0 * ALL) == 0).all()


@pytest.mark.parametrize("name", RULES)
def test_missing_rows_may_hold_any_numbers(name):
    rows, count = some_rows(1)[0], np.array([1, 1, 0, 1, 1, 1, 0, 1, 1])
    expected = direction(name, rows, count)
    for held in (0.0, 3e-3, 40.0):
        other = np.where(count[:, None] > 0, rows, np.float32(held))
        np.testing.assert_array_equal(jitted(name)(jnp.asarray(other), jnp.asarray(count)), expected)


@pytest.mark.parametrize("name", RULES)
def test_how_many_byzantine_rows_a_rule_tolerates(name):
    tolerates = RULES[name].made.most_byzantine
    assert [tolerates(m) for m in range(1, 33)] == [RULES[name].tolerates(m) for m in range(1, 33)]


@pytest.mark.parametrize("name", keeping("P"))
@settings(max_examples=8)
@given(SEEDS)
def test_permutation(name, seed):
    rows, count = some_rows(seed)
    order = np.random.default_rng(seed + 1).permutation(G)
    tie = "krum" in name and (count > 0).sum() == F + 3  # one neighbour: two rows that are nearest to each other
    if enough(name, count) and not tie:
        alike(direction(name, rows[order], count[order]), direction(name, rows, count))


@pytest.mark.parametrize("name", keeping("T"))
@settings(max_examples=8)
@given(SEEDS)
def test_translation(name, seed):
    rows, count = some_rows(seed)
    count[0] = 1
    rows = np.round(rows * 2**10) / 2**10  # so that the sum has no rounding, which could turn an order around
    moved = direction(name, rows + 8.0, count)
    if enough(name, count):
        alike(moved, direction(name, rows, count) + 8.0)


@pytest.mark.parametrize("name", [name for name in RULES if name != "dnc"])  # it draws coordinates: of so few, all
def test_rotation(name):
    """A rule says that its direction turns with the rows exactly if it does."""
    turned = []
    for seed in range(12):
        rows, _ = some_rows(seed)
        turn = np.linalg.qr(np.random.default_rng(seed + 1).normal(size=(D, D)))[0].astype(np.float32)
        found, expected = direction(name, rows @ turn), direction(name, rows) @ turn
        turned.append(np.allclose(found, expected, rtol=1e-3, atol=1e-3))
    assert all(turned) == RULES[name].made.equivariant


@pytest.mark.parametrize("name", keeping("S"))
@settings(max_examples=8)
@given(SEEDS)
def test_scaling(name, seed):
    rows, count = some_rows(seed)
    count[0] = 1
    if enough(name, count):
        alike(direction(name, -4 * rows, count), -4 * direction(name, rows, count), 4.0)


def far_rows(name):
    """As many as a rule tolerates. Two where one leads to hundreds of passes, in which eigenvalues cross: no dtype is
    exact enough to say which eigenvector is then the first."""
    return 2 if name == "caf, byzfl" else max(RULES[name].tolerates(G), 0)


@pytest.mark.parametrize("name", keeping("S"))
def test_huge_and_tiny_rows_are_rows_as_others(name):
    """Squares of float32 vanish below 1e-19 and overflow above 1e19; the first rows are far, and must not win ties."""
    rows = some_rows(8)[0]
    rows[: far_rows(name)] *= 30
    if name in TRUSTING:
        rows = rows[::-1].copy()
    expected = RULES[name].reference(rows.astype(np.float64))
    for scale in (1e-33, 1e-30, 1e-20, 1e20, 1e30, 1e35):
        found = direction(name, rows * np.float32(scale)).astype(np.float64) / np.float32(scale)
        close(found, expected, max(1.0, np.abs(expected).max()), 1e-3)


@pytest.mark.parametrize("name", [name for name in keeping("T") if name in keeping("S")])
def test_tiny_differences_beside_what_rows_have_in_common(name):
    rows = some_rows(9)[0]
    rows[: far_rows(name), 1:] *= 30
    if name in TRUSTING:
        rows = rows[::-1].copy()
    rows[:, 0] = 0
    expected = RULES[name].reference(rows.astype(np.float64))
    for scale in (1e-30, 1e-20):
        found = direction(name, np.where(np.arange(D) == 0, 1.0, rows * np.float32(scale))).astype(np.float64)
        assert found[0] == pytest.approx(1, rel=1e-6)
        close(found[1:] / np.float32(scale), expected[1:], max(1.0, np.abs(expected).max()), 1e-4)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_a_radius_is_a_length_at_any_scale(scale):
    rows = (some_rows(12)[0] * np.float32(scale)).astype(np.float32)
    x, radius = rows.astype(np.float64), 0.7 * scale
    for rule, expected in (
        (aggregators.centered_clipping(radius, 3, "zero"), references.centered_clipping(x / radius, 1.0, 3) * radius),
        (
            aggregators.pre_aggregated(aggregators.clipping(radius), aggregators.mean()),
            references.clipped(x, radius).mean(0),
        ),
        (aggregators.geometric_median(radius), references.geometric_median(x / radius, 1.0) * radius),
        (aggregators.weiszfeld(3, radius, "zero"), references.weiszfeld(x / radius, 3, 1.0, "zero") * radius),
        (aggregators.filter_l2(radius, bound=0.5), references.filter_l2(x / radius, 1.0, 0.5) * radius),
    ):
        close(np.asarray(rule(rows), np.float64) / scale, expected / scale, tolerance=1e-4)


@pytest.mark.parametrize("name", RULES)
def test_equal_rows_are_their_own_direction(name):
    row = np.linspace(-0.3, 0.3, D, dtype=np.float32)
    close(direction(name, np.tile(row, (G, 1))), RULES[name].reference(np.tile(np.float64(row), (G, 1))) if
          "clip" in name else row)  # fmt: skip


HOSTILE = {
    "nan": np.nan, "negative nan": -np.nan, "inf": np.inf, "-inf": -np.inf, "1e30": 1e30, "-3e38": -3e38,
    "one nan": [np.nan, *[0.0] * (D - 1)], "both": [np.inf, -np.inf, *[1e38] * (D - 2)],
}  # fmt: skip


def among(found, honest):
    """Near the honest rows: a mean may include Byzantine values as likely as honest ones."""
    low, high = honest.min(0), honest.max(0)
    return (found >= 2 * low - high - 1).all() and (found <= 2 * high - low + 1).all()


@pytest.mark.parametrize("name", keeping("H"))
def test_no_hostile_row_reaches_the_direction(name):
    """The direction stays near the honest rows, with as many hostile rows as the rule tolerates."""
    for i, hostile in enumerate(HOSTILE.values()):
        rows, count = some_rows(i)
        for m in range(3, G + 1):
            bad, count = max(RULES[name].tolerates(m), 0), (np.arange(G) < m).astype(int)
            if enough(name, count):
                rows[m - bad : m] = hostile
                honest = rows[: m - bad]
                assert among(direction(name, rows, count), honest), (m, hostile)
                rows = some_rows(i)[0]


@pytest.mark.parametrize("name", keeping("H"))
def test_hostile_rows_of_all_kinds_at_once(name):
    rows, _ = some_rows(3)
    bad = RULES[name].tolerates(G)
    for i, kind in enumerate(list(HOSTILE.values())[:bad]):
        rows[G - 1 - i] = kind
    assert among(direction(name, rows), rows[: G - bad])


@pytest.mark.parametrize("name", [name for name in keeping("H") if "clipping" not in name])
def test_finite_rows_far_away_do_not_blur_the_others(name):
    """They are 1e6 times as far as honest rows are apart, which would ruin distances relative to a mean."""
    rows, _ = some_rows(5)
    rows[-RULES[name].tolerates(G) :] = 1e6 * np.random.default_rng(0).normal(size=(RULES[name].tolerates(G), D))
    expected = RULES[name].reference(rows.astype(np.float64))
    close(direction(name, rows), expected, max(1.0, np.abs(expected).max()))


def test_a_row_infinitely_far_is_mixed_with_nobody():
    rows = np.float32([[1.0, 2.0], [2.0, 2.0], [3.0, 5.0], [1e30, 0.0]])
    mixing = jax.jit(aggregators.nearest_neighbour_mixing(1).apply)
    mixed, ok = mixing(jax.random.key(0), jnp.asarray(rows), jnp.ones(4, bool))
    np.testing.assert_allclose(mixed, [*np.tile(rows[:3].mean(0), (3, 1)), [np.nan, np.nan]], rtol=1e-6)
    assert ok.all()


@pytest.mark.parametrize(("rule", "f"), [(rule, f) for rule in ("dnc", "caf") for f in (3, 18)])
def test_the_top_eigenvalue_of_many_rows_just_within_reach_may_overflow(rule, f):
    """Each squared distance is float32, and their sum is not."""
    rows = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    scale = float(jax.jit(lambda rows: geometry(rows, jnp.ones(40, bool)).scale)(rows))
    rows[:f, 0] = 0.98 * FAR**0.5 / scale * np.where(np.arange(f) % 2, 1, -1)
    made = getattr(aggregators, rule)(f)
    found = np.asarray(jax.jit(lambda rows: made(rows, key=KEY))(rows))
    assert among(found, rows[f:])
    if rule == "dnc":
        close(found, rows[f:].mean(0))


@pytest.mark.parametrize("name", [name for name in keeping("T")])
def test_a_large_offset_in_common_does_not_blur_rows(name):
    rows, _ = some_rows(6)
    rows = (rows + 4096.0).astype(np.float32)
    expected = RULES[name].reference(rows.astype(np.float64))
    np.testing.assert_allclose(direction(name, rows), expected, atol=2e-3)


HONEST = np.zeros((G, D), np.float32)
HONEST[:, :2] = np.random.default_rng(0).normal(size=(G, 2)) / 2 + [0.5, 0.2]
PLACES = np.zeros((6, D), np.float32)
PLACES[:, :2] = [[0, 1e6], [1e6, 1e6], [1e4, 1e4], [1e4, 0], [-0.3, 1e4], [3, 0]]
"""A row far away may hide one that is less far: from a mean, a direction of most variance or a largest component."""
NO_BOUND = ("mean", "weiszfeld", "weiszfeld, nu", "dnc")
"""The mean, which tolerates none, and rules that say so."""


def furthest(name, num_byzantine):
    """The largest distance from the honest mean, Byzantine rows last; NaN, with which a round fails, is none."""
    honest = HONEST[: G - num_byzantine]
    chosen = itertools.combinations_with_replacement(PLACES, num_byzantine)
    found = np.stack([direction(name, np.concatenate([honest, [*rows]])) for rows in chosen])
    return np.nanmax(np.linalg.norm(found - honest.mean(0), axis=1))


@pytest.mark.parametrize("name", RULES)
def test_no_minority_that_a_rule_tolerates_takes_it_away(name):
    """As many Byzantine rows as it says, wherever a few places put them."""
    assert (furthest(name, max(RULES[name].made.most_byzantine(G), 1)) > 1e2) == (name in NO_BOUND)


@pytest.mark.parametrize(("name", "number"), [("caf, byzfl", 2), ("filter_l2, authors", 3)])
def test_too_many_take_it_away(name, number):
    """One row hides another where removed rows are compared, too; two passes remove two rows."""
    assert furthest(name, number) > 1e3


@pytest.mark.parametrize("f", [1, 2, 4])
def test_dnc_tolerates_equal_rows(f):
    rows = np.stack([np.vstack([HONEST[f:], np.tile(place, (f, 1))]) for place in PLACES])
    found = jax.jit(jax.vmap(aggregators.dnc(f)))(rows)
    assert (np.linalg.norm(np.asarray(found) - HONEST[f:].mean(0), axis=1) < 3).all()


@pytest.mark.parametrize("rule", ["trimmed_mean", "mda", "meamed", "caf", "smea"])
def test_without_byzantine_rows_it_is_the_mean(rule):
    rows, count = some_rows(4)
    received = Received(jnp.asarray(np.where(count[:, None] > 0, rows, np.inf)), jnp.asarray(count))
    made = getattr(aggregators, rule)(0)
    close(jax.jit(made.apply)(KEY, (), received)[0], there(rows, count).mean(0))


@pytest.mark.parametrize(("name", "first"), [("krum", 0), ("multi_krum", None), ("monna", None), ("mda", None)])
def test_ties_go_to_the_first_rows(name, first):
    """Two clusters that mirror each other, except for one row."""
    rows = np.zeros((G, D), np.float32)
    rows[:4, 0], rows[4:8, 0], rows[8, 1] = 1.0, -1.0, 50.0
    found = direction(name, rows, (np.arange(G) < 8).astype(int))
    assert found[0] > 0 and (found[1:] == 0).all()
    assert first is None or (found == rows[first]).all()


@pytest.mark.parametrize("lost", range(4))
def test_a_missing_row_is_not_one_of_those_left_out(lost):
    """Rows at equal distances: leaving out the missing one would keep all the others."""
    count = (np.arange(4) != lost).astype(int)
    rows = np.where(count[:, None] > 0, np.eye(4, dtype=np.float32), np.nan)
    found, _ = jax.jit(aggregators.mda(1).apply)(KEY, (), Received(jnp.asarray(rows), jnp.asarray(count)))
    close(found, np.eye(4)[np.flatnonzero(count)[:2]].mean(0))


@pytest.mark.parametrize("name", ["meamed", "bulyan", "trimmed_mean"])
def test_rows_that_the_same_program_computes(optimised, name):
    """Optimised, XLA computes them again for every use, with other roundings, and distances found twice differ."""
    apply = RULES[name].made.apply

    def both(x):
        rows = x - x[2:].mean(0)[None]
        rows = rows / jnp.sqrt(jnp.square(rows[2:]).sum(1).mean())
        return rows, apply(KEY, (), Received(rows, jnp.ones(len(rows), jnp.int32)))[0]

    rows, found = jax.jit(jax.vmap(both))(jax.random.normal(KEY, (100, 7, 2)))
    for x, direction in zip(np.asarray(rows, np.float64), found, strict=True):
        close(direction, RULES[name].reference(x))

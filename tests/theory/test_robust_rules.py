"""Certificates of rules: closed forms against the projection on increasing sequences, and printed values."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from aggregators import references
from fedjax_priv.theory.robust_rules import (
    arc_kappa,
    coordinate_median_kappa,
    geometric_median_kappa,
    krum_kappa,
    least_kappa,
    mda_kappa,
    meamed_kappa,
    mixed_kappa,
    multi_krum_kappa,
    smea_kappa,
    trimmed_mean_kappa,
)
from helpers import refuses

SETTINGS = [(n, f) for n in range(3, 18) for f in range(1, (n - 1) // 2 + 1)]


def of_order_statistics(weights, f):
    """Of `sum_i weights_i x_(i)`, whose f last weights are 0: Byzantine rows beyond the honest ones are the worst."""
    honest = len(weights) - f
    away = weights[:honest] - 1 / honest
    return honest * (isotonic_regression(away).x ** 2).sum()


def trimming(n, f):
    return ((np.arange(n) >= f) & (np.arange(n) < n - f)) / (n - 2 * f)


def median(n):
    return np.where(np.isin(np.arange(n), [(n - 1) // 2, n // 2]), 1 / (2 - n % 2), 0.0)


@pytest.mark.parametrize(("n", "f"), SETTINGS)
def test_rules_of_order_statistics(n, f):
    assert trimmed_mean_kappa(n, f) == pytest.approx(of_order_statistics(trimming(n, f), f), rel=1e-9)
    if n // 2 < n - f:  # or else the even median has a weight on the Byzantine values
        assert coordinate_median_kappa(n, f) == pytest.approx(of_order_statistics(median(n), f), rel=1e-9)


@pytest.mark.parametrize(("n", "f"), [(n, f) for n, f in SETTINGS if n % 2 == 0])
def test_the_lower_median_of_an_even_number_is_worse(n, f):
    """By symmetry as the upper one, on which Byzantine rows above all others have most influence."""
    upper = np.eye(n)[n // 2]
    assert of_order_statistics(upper, f) == pytest.approx(n / (n - 2 * f), rel=1e-9)
    assert n / (n - 2 * f) > coordinate_median_kappa(n, f)


def test_the_table():
    n, f = np.array([7, 11, 15, 16]), np.array([2, 3, 4, 3])
    np.testing.assert_allclose(trimmed_mean_kappa(n, f), [2 / 3, 0.6, 4 / 7, 0.3])
    np.testing.assert_allclose(coordinate_median_kappa(n, f), [1.5, 5 / 3, 1.75, 7 / 6])
    np.testing.assert_allclose(krum_kappa(n, f, "byzfl"), [6.981, 6.571, 6.395, 4.666], rtol=1e-3)
    np.testing.assert_allclose(krum_kappa(n, f), [9.993, 8.132, 7.450, 5.262], rtol=1e-3)
    assert (krum_kappa(n, f, "byzfl") < 6 * (n - f) / (n - 2 * f)).all(), "Allouah et al."
    np.testing.assert_allclose(multi_krum_kappa(n, f, "byzfl"), [3.178, 2.832, 2.685, 1.335], rtol=1e-3)
    np.testing.assert_allclose(multi_krum_kappa(n, f), [4.018, 3.237, 2.950, 1.412], rtol=1e-3)
    np.testing.assert_allclose(meamed_kappa(n, f), [4, 4, 4, 2])
    np.testing.assert_allclose(geometric_median_kappa(n, f), [1.5, 5 / 3, 1.75, 1.6])
    np.testing.assert_allclose(mixed_kappa(trimmed_mean_kappa(n, f), n, f), 4 * least_kappa(n, f))
    np.testing.assert_allclose(mixed_kappa(1.0, 10, 2), 2.0)
    np.testing.assert_allclose(mda_kappa(n, f), [3.2, 3.65625, 140 / 33, 28 / 13])
    assert mda_kappa(3, 1) == 4 and mda_kappa(5, 0) == mda_kappa(1, 0) == 0
    np.testing.assert_allclose(arc_kappa(0.0, n, f), [2 / 3, 1, 5 / 6, 4 / 9])
    assert (mda_kappa(n, f) < 8 * f**2 / (n - f)).all(), "of twice the diameter"
    assert (arc_kappa(0.0, n, f) <= 2 * f / (n - 2 * f)).all(), "Allouah et al."


def test_a_wrong_denominator_is_found_out():
    """Rows at 0, f of them Byzantine, and f honest ones at 1: any rule that answers 0 when it must has this ratio."""
    n, f = 11, 3
    honest = np.array([0.0] * (n - 2 * f) + [1.0] * f)
    ratio = honest.mean() ** 2 / honest.var()
    assert least_kappa(n, f) == pytest.approx(ratio)
    assert f / n < ratio and f / (n - f) < ratio


def ratio(direction, honest):
    return ((direction - honest.mean(0)) ** 2).sum() / honest.var(0).sum()


def line(*groups):
    """Rows on a line in the plane, `(how many, where)`, Byzantine ones first."""
    return np.concatenate([np.tile([float(at), 0.0], (many, 1)) for many, at in groups])


def climbed(rule, f, rows, rng, steps=150):
    """The largest ratio on a climb by random changes of some rows, of rules for which the scale does not matter."""
    best = ratio(rule(rows, f), rows[f:])
    for size in np.geomspace(1, 0.01, steps):
        tried = rows + size * rng.normal(size=rows.shape) * (rng.uniform(size=(len(rows), 1)) < 0.5)
        tried /= np.sqrt(tried[f:].var(0).sum())
        if (found := ratio(rule(tried, f), tried[f:])) > best:
            best, rows = found, tried
    return best


@pytest.mark.parametrize(("n", "f"), SETTINGS)
def test_the_geometric_median_reaches_its_kappa_on_a_line(n, f):
    """Byzantine rows beyond so few honest ones that these are a median; with one fewer they are none."""
    total = lambda rows, at: np.abs(rows[:, 0] - at).sum()
    few = -(-(n - 2 * f) // 2)
    rows = line((f, 2), (few, 1), (n - f - few, 0))
    assert total(rows, 1) <= min(total(rows, at) for at in (0, 0.5, 1.5, 2))
    assert ratio(np.array([1.0, 0.0]), rows[f:]) == pytest.approx(geometric_median_kappa(n, f))
    fewer = line((f, 2), (few - 1, 1), (n - f - few + 1, 0))
    assert total(fewer, 0) < total(fewer, 1)


def test_honest_rows_are_as_far_from_any_point_as_the_proof_for_the_geometric_median_says():
    """With Byzantine rows anywhere, and points near the honest mean, where there is least room."""
    rng, tightest = np.random.default_rng(3), np.inf
    for n, f in rng.choice([(3, 1), (5, 2), (7, 2), (8, 3), (9, 1)], 60):
        few = -(-(n - 2 * f) // 2)
        rows = line((f, 2), (few, 1), (n - f - few, 0)) + rng.choice([0.1, 1]) * rng.normal(size=(n, 2))
        median, honest = references.geometric_median(rows), rows[f:]
        for point in honest.mean(0) + rng.normal(size=(20, 2)) * rng.choice([0.1, 1]):
            room = ((honest - point) ** 2).sum() / (few * ((median - point) ** 2).sum())
            tightest = min(tightest, room)
    assert 1 - 1e-6 <= tightest < 1.2


OF_SCORES = {
    "krum": (lambda x, f: references.krum(x, f), krum_kappa),
    "krum, byzfl": (lambda x, f: references.krum(x, f, 1), lambda n, f: krum_kappa(n, f, "byzfl")),
    "multi_krum": (references.multi_krum, multi_krum_kappa),
    "multi_krum, byzfl": (
        lambda x, f: references.multi_krum(x, f, 1), lambda n, f: multi_krum_kappa(n, f, "byzfl")
    ),
    "multi_krum of two": (lambda x, f: references.multi_krum(x, f, 1, 2), lambda n, f: krum_kappa(n, f, "byzfl")),
    "meamed": (references.meamed, meamed_kappa),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_SCORES)
def test_no_climb_exceeds_what_is_proved_of_scores(name):
    rule, proved = OF_SCORES[name]
    rng, shares = np.random.default_rng(0), []
    for n, f in ((4, 1), (6, 2), (7, 2), (8, 3)):
        starts = [line((f, at), (n - 2 * f, 0), (f, 1)) for at in (-0.999, 0.999)] + [rng.normal(size=(n, 2))]
        shares += [climbed(rule, f, rows + 0.01 * rng.normal(size=rows.shape), rng) / proved(n, f) for rows in starts]
    assert 0.6 < max(shares) <= 1 + 1e-9


@pytest.mark.parametrize(("n", "f"), [(3, 1), (4, 1), (7, 3), (8, 3)])
def test_meamed_reaches_its_kappa_where_byzantine_rows_are_nearly_half(n, f):
    rows = line((f, -1 + 1e-7), (n - 2 * f, 0), (f, 1))
    assert ratio(references.meamed(rows, f), rows[f:]) == pytest.approx(meamed_kappa(n, f), rel=1e-4)


def test_too_few_neighbours_have_no_kappa():
    """Without Byzantine rows all are selected."""
    assert krum_kappa(7, 3) == multi_krum_kappa(7, 3) == krum_kappa(1, 0) == np.inf
    assert multi_krum_kappa(5, 0) == multi_krum_kappa(5, 0, "byzfl") == meamed_kappa(5, 0) == 0


OF_SUBSETS = [(3, 1), (5, 1), (5, 2), (6, 2), (7, 2)]


def one_far_on_each_side(n, f):
    """The worst rows of MDA: it leaves out the honest ones above for Byzantine ones as far below."""
    others = n - 2 * f - 1
    top, low, rest = f + 1, -f - f * (others == 0), -f / max(others, 1)
    least = (rest if others else low) - (top - low) * (1 - 1e-6)
    return line((f, least), (1, top), (f - 1, 1), (1, low), (others, rest))


@pytest.mark.parametrize(("n", "f"), OF_SUBSETS)
def test_rules_of_the_closest_rows(n, f):
    """Traps reach the exact kappa of SMEA and of MDA; no climb exceeds it."""
    rng, near = np.random.default_rng(n), -1 + 1e-6
    thirds, one_far = line((f, near), (n - 2 * f, 0), (f, 1)), one_far_on_each_side(n, f)
    assert ratio(references.smea(thirds, f), thirds[f:]) == pytest.approx(smea_kappa(n, f), rel=1e-4)
    assert ratio(references.mda(one_far, f), one_far[f:]) == pytest.approx(mda_kappa(n, f), rel=1e-4)
    for rule, proved in ((references.smea, smea_kappa), (references.mda, mda_kappa)):
        for rows in (rng.normal(size=(n, 2)), thirds + 0.01 * rng.normal(size=(n, 2)), one_far):
            assert climbed(rule, f, rows, rng) <= proved(n, f) * (1 + 1e-9)


MIXED = [(3, 1), (4, 1), (6, 2), (7, 2), (8, 3), (11, 3)]


def spread_of_mixed(rows, f):
    """Of mixed honest rows about the honest mean before, in units of the honest variance."""
    honest = rows[f:]
    return ((references.mixed(rows, f)[f:] - honest.mean(0)) ** 2).sum(1).mean() / honest.var(0).sum()


@pytest.mark.parametrize(("n", "f"), MIXED)
def test_mixed_rows_are_as_far_from_the_honest_mean_as_the_proof_says(n, f):
    """The step of the proof of `mixed_kappa`, with rows that reach it, and climbs that do not exceed it."""
    rng, proved = np.random.default_rng(n), mixed_kappa(0.0, n, f)
    trap = line((f, 1 - 1e-6), (n - 2 * f, 0), (f, -1))
    assert spread_of_mixed(trap, f) == pytest.approx(proved, rel=1e-4)
    trimmed = references.trimmed(references.mixed(trap, f), f)
    assert ratio(trimmed, trap[f:]) == pytest.approx(mixed_kappa(least_kappa(n, f), n, f), rel=1e-4)
    for rows in (trap + 0.1 * rng.normal(size=trap.shape), rng.normal(size=(n, 2)), rng.normal(size=(n, 1))):
        for size in np.geomspace(1, 0.01, 100):
            tried = rows + size * rng.normal(size=rows.shape) * (rng.uniform(size=(n, 1)) < 0.5)
            rows = max(rows, tried, key=lambda x: spread_of_mixed(x, f))
        assert spread_of_mixed(rows, f) <= proved * (1 + 1e-9)


@pytest.mark.parametrize(("n", "f"), [(3, 1), (5, 2), (7, 2)])
def test_adaptive_clipping_adds_to_kappa(n, f):
    """Where rows are matters if they are clipped. Climbs come near two thirds of the bound."""
    rng = np.random.default_rng(n)
    rule = lambda x, f: references.trimmed(references.arc(x, f), f)
    rows = (rng.normal(size=(n, 2)) + rng.normal(size=2) for _ in range(8))
    found = max(climbed(rule, f, each, rng) for each in rows)
    assert 0.6 < found / arc_kappa(trimmed_mean_kappa(n, f), n, f) <= 1


def lost_and_moved(rows, f):
    """By how much clipping lowers the honest variance, and the part of it that `arc_kappa` counts on."""
    honest, kept = rows[f:], references.arc(rows, f)[f:]
    moved = ((honest.mean(0) - kept.mean(0)) ** 2).sum()
    return honest.var(0).sum() - kept.var(0).sum(), moved / arc_kappa(0.0, len(rows), f)


def test_clipping_lowers_the_honest_variance_by_what_it_moves_the_mean():
    """The step of the proof of `arc_kappa`: with equality if half of the honest rows are clipped to the others."""
    assert lost_and_moved(line((2, 0.5), (3, 1), (3, 2)), 2) == pytest.approx((0.25, 0.25))
    rng = np.random.default_rng(0)
    for n, f in rng.choice([(3, 1), (5, 2), (7, 2), (8, 2), (9, 3)], 1000):
        rows = rng.normal(size=(n, 2)) * np.exp(2 * rng.normal(size=(n, 1))) + rng.normal(size=2)
        lost, moved = lost_and_moved(rows, f)
        assert lost >= moved - 1e-12 * rows[f:].var(0).sum()


test_bad_arguments = refuses(
    lambda n, f: least_kappa(n, f),
    (4, 2, "num_byzantine must be below half of num_rows, got 2"),
    (4, -1, "num_byzantine must be an integer >= 0, got -1"),
    (0, 0, "num_rows must be an integer >= 1, got 0"),
    whole=True,
)

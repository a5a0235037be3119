"""Verdicts on printed values, and rounds to a target."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from experiments.cards import Card, Result
from experiments.claims import Claim, Open
from experiments.harness import plain_claim, read_claim
from experiments.published import Printed, claim, compare, rounds_to, welch

THEIRS = Printed(96.78, 0.21, 10)


@pytest.mark.parametrize(("n1", "n2"), [(3, 4), (2, 10), (5, 3)])
def test_welch_s_interval_is_scipy_s(n1, n2):
    rng = np.random.default_rng(n1)
    ours, theirs = rng.normal(size=n1), rng.normal(size=n2) * 3
    interval = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert welch(ours.std(ddof=1), n1, theirs.std(ddof=1), n2) == pytest.approx((interval.high - interval.low) / 2)


def test_widths_that_are_known():
    """Two rows of 3 seeds: 2.27 s (scipy's quantile of 4 degrees); one run of theirs: n1 - 1; one of ours: none."""
    assert welch(0.1, 3, 0.1, 3) == pytest.approx(0.2267, abs=1e-4)
    assert welch(0.1, 3, 0.1, 1) == pytest.approx(4.3027 * 0.1 * (4 / 3) ** 0.5, rel=1e-4)
    assert welch(math.nan, 1, 0.1, 3) == math.inf and welch(0.0, 3, 0.0, 3) == 0.0
    assert welch(1.0, 10**6, 0.5, 3) == pytest.approx(2.484 * 0.5, rel=1e-3)  # theirs stays


@pytest.mark.parametrize(
    ("values", "better", "word"),
    [
        ([96.6, 96.7, 96.9], 1, "reproduced"),
        ([97.4, 97.5, 97.6], 0, "differs"),
        ([97.4, 97.5, 97.6], 1, "better than printed"),
        ([97.4, 97.5, 97.6], -1, "differs"),
        ([96.0, 96.1, 96.2], 1, "differs"),
        ([96.0, 96.1, 96.2], -1, "better than printed"),
        ([95.0, 96.7, 98.5], 1, "not decided"),  # means agree, the interval is too wide
        ([96.4, 97.5, 98.6], 1, "not decided"),  # means do not, and it holds 0
        ([96.8], 1, "not decided"),
        ([90.0], 1, "not decided"),  # one seed, however far
    ],
)
def test_the_word(values, better, word):
    assert claim("x", "x", values, THEIRS, 0.5, better=better, differs="").said == word


@pytest.mark.parametrize("n2", [1, 5, 10])
def test_a_deviation_that_is_taken_to_be_ours_adds_no_degrees_of_freedom(n2):
    """Of equal laws the interval of the difference misses 0 in 5% of cases, whoever's deviation is known."""
    rng, times = np.random.default_rng(n2), 2000
    ours, theirs = rng.normal(size=(times, 3)), rng.normal(size=(times, n2)).mean(1)
    found = [compare(one, Printed(other, None, n2), 1e-9) for one, other in zip(ours, theirs, strict=True)]
    halves = stats.t.ppf(0.975, 2) * ours.std(1, ddof=1) * (1 / 3 + 1 / n2) ** 0.5
    np.testing.assert_allclose([one.half for one in found], halves)
    assert 0.03 < np.mean([not one.inside for one in found]) < 0.07


def test_no_run_is_not_called_a_single_seed():
    found = claim("x", "x", [], THEIRS, 0.5)
    assert (found.said, found.found, found.note) == ("not decided", "values of runs: none", "there is no run")


def test_a_run_without_a_value_is_not_called_a_single_seed():
    for lost in (math.nan, math.inf):
        found = claim("x", "x", [96.7, lost, 96.9], THEIRS, 0.5)
        assert (found.verdict, found.why, found.found) == (None, Open.UNDECIDED, "values of runs: 96.70, 96.90")
        assert found.note == "1 of 3 runs have no finite value"


@pytest.mark.parametrize(
    ("values", "inside"),
    [([2.0, 2.1, 2.2], True), ([2.5, 2.6, 2.7], False), ([2.0], False), ([2.0, np.nan], False)],
)
def test_the_interval_holds_0_or_is_not_there(values, inside):
    assert compare(values, Printed(2.0, 0.1, 3), math.inf).inside == inside


def test_at_the_margin():
    exact = Printed(0.0, 0.01, 1000)
    for apart, same in ((0.49, True), (0.51, False)):
        assert compare([apart - 0.01, apart, apart + 0.01], exact, 0.5).verdict is same
    wide = compare([-0.3, 0.0, 0.3], exact, 0.5)  # half a width of 0.745
    assert wide.verdict is None and wide.half > 0.5


def test_a_printed_value_without_deviation_has_ours_and_says_so():
    (bare, own) = (claim("x", "x", [1.0, 1.1, 1.2], Printed(1.1, *of), 0.5) for of in ((None, 10), (0.1, 10)))
    assert bare.found[:16] == own.found[:16] and "taken to be ours" in bare.note and "taken" not in own.note
    one_run = compare([1.0, 1.1, 1.2], Printed(1.1, 99.0, 1), 0.5)
    assert one_run.half == pytest.approx(welch(0.1, 3, 0.1, 1))


def test_it_is_said_how_many_seeds_would_do():
    number = lambda *of: int(compare(*of).missing.split()[1])
    needed = number([95.8, 96.7, 97.6], THEIRS, 0.5)
    assert welch(0.9, needed, 0.21, 10) <= 0.5 < welch(0.9, needed - 1, 0.21, 10)
    assert compare([95.0, 96.7, 98.5], Printed(96.7, 6.78, 3), 0.5).missing == "no number of our seeds decides"
    assert "one seed" in compare([96.8], THEIRS, 0.5).missing


def test_words_stay_in_a_file_and_in_a_card():
    made = [claim(str(i), "x", v, THEIRS, 0.5, better=1, differs="") for i, v in enumerate(([96.7, 96.8], [96, 96.1]))]
    assert [read_claim(**plain_claim(one)).said for one in made] == [one.said for one in made]
    holds = Claim("y", "y", "", "1", True, "rule", differs="")
    card = lambda *claims: Result(Card("p", "n", "Fig.", "x"), "cpu", None, list(claims), {}).verdict
    assert (card(made[0], holds), card(made[1]), card(*made)) == ("holds", "does not hold", "holds in part")
    assert card(holds._replace(verdict=None, why=Open.BETTER)) == "better than printed"
    assert made[0]._replace(differs="digits").said == "agrees in trend"


def naive(target, rounds, values):
    """Walk along the curve in small steps."""
    best = list(itertools.accumulate(values, max))
    fine = np.linspace(rounds[0], rounds[-1], 200_001)
    return fine[np.argmax(np.interp(fine, rounds, best) >= target - 1e-12)]


def test_rounds_to_a_target():
    rng = np.random.default_rng(0)
    rounds, values = np.cumsum(rng.integers(1, 9, 40)), rng.random(40) * np.linspace(0.5, 1, 40)
    low, high = values[0], values.max()
    for target in (low + part * (high - low) for part in (0.1, 0.5, 0.99)):
        assert rounds_to(target, rounds, values) == pytest.approx(naive(target, rounds, values), abs=2e-3)
    assert rounds_to(2.0, rounds, values) == math.inf
    assert rounds_to(0.0, rounds, values) == rounds[0]
    assert rounds_to(0.5, [0, 10, 20], [0.1, math.nan, 0.9]) == 10 + 10 * (0.5 - 0.1) / 0.8
    assert rounds_to(0.9, [0, 10, 20], [math.nan, 0.95, 0.99]) == 10

import math
from fractions import Fraction

import numpy as np
import pytest
from refusals import refused
from scipy import stats

from fedjax_priv.theory import sparse_secagg as theory


def test_selection_is_that_of_the_masks(case):
    sent = case.outcomes.sent
    p = theory.selection_probability(case.n, case.alpha)
    both = theory.both_selected_probability(case.n, case.alpha)
    assert case.outcomes.mean_is(sent[:, 0], p)
    assert case.outcomes.mean_is(sent[:, 0] & sent[:, -1], both)
    assert case.outcomes.mean_is(sent[:, 0] * sent[:, -1] - p**2, theory.selection_covariance(case.n, case.alpha))
    assert not case.outcomes.mean_is(sent[:, 0], case.alpha)
    assert not case.outcomes.mean_is(sent[:, 0] & sent[:, -1], p**2)


@pytest.mark.parametrize(("n", "alpha"), [(2, 1.0), (3, 0.1), (50, 1e-12), (400, 0.5)])
def test_selection_to_the_last_digits(n, alpha):
    a = Fraction(theory.pair_probability(n, alpha).item())
    p = 1 - (1 - a) ** (n - 1)
    both = 1 - 2 * (1 - a) ** (n - 1) + (1 - a) ** (2 * n - 3)
    np.testing.assert_allclose(theory.selection_probability(n, alpha), float(p), rtol=1e-14)
    np.testing.assert_allclose(theory.both_selected_probability(n, alpha), float(both), rtol=1e-13)
    np.testing.assert_allclose(theory.selection_covariance(n, alpha), float(both - p**2), rtol=1e-13)


def test_upload_of_many_coordinates(drawn_case):
    """|U_i| over d coordinates, each an outcome."""
    case, d = drawn_case, 50
    bits = theory.upload_bits(d, case.n, case.alpha)
    count = case.outcomes.sent[:, 0].reshape(-1, d).sum(1)
    error = 5 * (32 * count).std() / np.sqrt(len(count))
    assert abs((32 * count + d).mean() - bits) < error
    assert abs((32 * count).mean() - bits) > error
    p, std = theory.selection_probability(case.n, case.alpha), theory.upload_std(d, case.n, case.alpha)
    squares = (count - d * p) ** 2
    error = 5 * squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - std**2) < error
    assert abs(squares.mean() - d * p) > error
    assert theory.compression_ratio(case.n, case.alpha) == pytest.approx(32 * d / bits, rel=1e-14)


def test_compression_at_the_papers_alpha():
    """About 7.9 at alpha = 0.1; p = 0.095 is below alpha, and 0.63 at alpha = 1."""
    np.testing.assert_allclose(theory.compression_ratio(np.array([25, 100, 1000]), 0.1), 7.9, atol=0.05)
    assert theory.selection_probability(100, 0.1) == pytest.approx(0.095, abs=3e-4)
    assert theory.selection_probability(10**6, 1.0) == pytest.approx(1 - math.exp(-1), abs=1e-6)


@pytest.mark.parametrize("count", [120, 200, 999])
def test_tail_of_the_upload_lies_between_chernoffs_bounds(count):
    """exp(-d KL) / sqrt(8 d x (1-x)) <= P[|U_i| >= d x] <= exp(-d KL) <= exp(-2 d e^2), the binomial's tail exact."""
    d, n, alpha = 1000, 20, 0.1
    p = theory.selection_probability(n, alpha)
    bound, looser = theory.upload_tail(d, n, alpha, count / d - p), theory.upload_tail_hoeffding(d, count / d - p)
    tail = stats.binom.sf(count - 1, d, p)
    assert bound / np.sqrt(8 * count * (1 - count / d)) <= tail <= bound <= looser


def test_both_bounds_meet_at_even_odds():
    """KL(p + e || p) -> 2 e^2 for p = 1/2 and small e."""
    n, alpha, excess = 1000, 0.693, 0.03
    assert theory.selection_probability(n, alpha) == pytest.approx(0.5, abs=1e-3)
    bound, looser = theory.upload_tail(2000, n, alpha, excess), theory.upload_tail_hoeffding(2000, excess)
    assert bound == pytest.approx(looser, rel=1e-2)


def test_no_upload_exceeds_all_coordinates():
    assert theory.upload_tail(10, 5, 0.5, 0.9) == 0
    assert theory.upload_tail(10, 5, 0.5, 0.0) == 1


def test_honest_survivors_at_a_coordinate(case):
    count = (case.outcomes.sent & case.honest_survivors).sum(1)
    mean = theory.aggregated_honest_clients(case.setting)
    assert case.outcomes.mean_is(count, mean)
    assert not case.outcomes.mean_is(count, theory.aggregated_honest_clients(case.setting._replace(adversarial=0.0)))
    assert not case.outcomes.mean_is(count, theory.aggregated_honest_clients_limit(case.setting))
    variance = theory.aggregated_honest_clients_variance(case.setting)
    assert case.outcomes.mean_is((count - mean) ** 2, variance)
    assert not case.outcomes.mean_is((count - mean) ** 2, mean * (1 - mean / (case.n - case.adversaries)))
    present = case.honest_survivors.sum(1)
    assert case.outcomes.mean_is(present, theory.secagg_aggregated_honest_clients(case.setting))


def test_theorem_2_is_the_limit_from_below():
    n = np.array([10, 100, 10**6])
    setting = theory.Setting(n, 0.1, 0.3, 0.25)
    mean, limit = theory.aggregated_honest_clients(setting), theory.aggregated_honest_clients_limit(setting)
    np.testing.assert_allclose(limit, (1 - math.exp(-0.1)) * 0.7 * 0.75 * n, rtol=1e-14)
    assert (mean > limit).all()
    assert mean[-1] / limit[-1] == pytest.approx(1, abs=1e-6)
    assert mean[0] / limit[0] > 1 + 1e-3


def test_revealed_fraction(case):
    single = (case.outcomes.sent & case.honest_survivors).sum(1) == 1
    revealed = lambda adversaries, dropout: theory.revealed_fraction(case.n, adversaries, case.alpha, dropout)
    assert case.outcomes.mean_is(single, revealed(case.adversaries, case.dropout))
    assert not case.outcomes.mean_is(single, revealed(0, case.dropout))
    if case.dropout:
        assert not case.outcomes.mean_is(single, revealed(case.adversaries, 0.0))
        honest = (case.outcomes.sent[:, case.adversaries :]).sum(1) == 1
        assert case.outcomes.mean_is(honest, revealed(case.adversaries, 0.0))


def test_revealed_fraction_of_arrays():
    n, adversaries, alpha = np.array([5, 12, 100]), np.array([2, 4, 33]), np.array([[0.1], [1.0]])
    table = theory.revealed_fraction(n, adversaries, alpha, 0.3)
    one = [[theory.revealed_fraction(5, 2, x, 0.3), theory.revealed_fraction(12, 4, x, 0.3)] for x in (0.1, 1.0)]
    np.testing.assert_allclose(table[:, :2], one, rtol=1e-14)
    assert isinstance(one[0][0], float)


def test_recovery():
    """P[Bin(N, 1 - theta) >= floor(N/2) + 1]; it tends to 1 for theta < 1/2, and to 0 above."""
    n, theta = np.array([1, 2, 5, 100, 3000]), np.array([[0.0], [0.3], [0.45], [0.55]])
    expected = stats.binom.sf(n // 2, n, 1 - theta)
    np.testing.assert_allclose(theory.recovery_probability(n, theta), expected, rtol=1e-11)
    assert theory.recovery_probability(3000, 0.45) > 1 - 1e-6
    assert theory.recovery_probability(3000, 0.55) < 1e-6
    assert theory.recovery_probability(4, 0.5, threshold=2) == pytest.approx(11 / 16, rel=1e-14)


@pytest.mark.parametrize("cap", [0, 12, 60, 199])
def test_overflow_of_a_pair_far_in_the_tail(cap):
    d, n, alpha = 200, 10, 0.1
    a = Fraction(theory.pair_probability(n, alpha).item())
    tail = sum(math.comb(d, k) * a**k * (1 - a) ** (d - k) for k in range(cap + 1, d + 1))
    expected = min(1, 45 * float(tail))
    np.testing.assert_allclose(theory.pair_overflow_probability(d, n, alpha, cap), expected, rtol=1e-10)


def test_overflow_of_arrays():
    found = theory.pair_overflow_probability(165_000, 1000, 0.1, np.array([10, 60, 80, 165_000]))
    expected = np.minimum(999 * 500 * stats.binom.sf([10, 60, 80, 165_000], 165_000, 0.1 / 999), 1)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert found[0] == 1
    assert found[2] < 1e-20
    assert found[3] == 0
    assert theory.pair_overflow_probability(3, 2, 1.0, np.array([2, 3, 4])).tolist() == [1, 0, 0]


test_bad_arguments = refused(
    (lambda: theory.selection_probability(1, 0.1), "num_clients must be an integer >= 2, got 1"),
    (lambda: theory.selection_probability(5.0, 0.1), "num_clients must be an integer >= 2, got 5.0"),
    (lambda: theory.selection_probability(True, 0.1), "num_clients must be an integer >= 2, got True"),
    (lambda: theory.revealed_fraction(2**40, 3, 0.1), "num_clients must be at most 1048576, got"),
    (lambda: theory.pair_probability(5, 0.0), r"alpha must be in \(0, 1\], got 0.0"),
    (lambda: theory.pair_probability(5, math.nan), r"alpha must be in \(0, 1\], got nan"),
    (lambda: theory.pair_probability(5, np.array([0.5, 1.5])), r"alpha must be in \(0, 1\], got array"),
    (lambda: theory.upload_bits(0, 5, 0.1), "num_params must be an integer >= 1, got 0"),
    (lambda: theory.upload_tail(9, 5, 0.1, -0.1), r"excess must be in \[0, inf\), got -0.1"),
    (lambda: theory.pair_overflow_probability(9, 5, 0.1, -1), "cap must be an integer >= 0, got -1"),
    (lambda: theory.recovery_probability(5, 1.0), r"dropout must be in \[0, 1\), got 1.0"),
    (lambda: theory.recovery_probability(5, 0.1, 6), "threshold must be at most num_clients = 5, got 6"),
    (lambda: theory.aggregated_honest_clients(theory.Setting(5, 0.1, 0.1, 0.5)),
     r"adversarial must be in \[0, 0.5\) \(a minority of the users\), got 0.5"),
    (lambda: theory.aggregated_honest_clients_limit(theory.Setting(5, 0.1, 0.5, 0.1)),
     r"dropout must be in \[0, 0.5\) \(the condition of the theorem\), got 0.5"),
    (lambda: theory.revealed_fraction(6, 3, 0.1), "num_adversaries must be below half of num_clients = 6, got 3"),
)  # fmt: skip

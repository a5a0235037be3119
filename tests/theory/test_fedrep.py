import functools
import itertools
import math
from fractions import Fraction
from inspect import unwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import each, refused
from scipy import stats

from fedjax_priv.theory import fedrep as theory
from fedjax_priv.theory import sparse_secagg

ALPHAS = st.floats(0.01, 0.99)


def law_of_proposal(d, n, alpha, top):
    """Probability of every I_k, straight from the algorithm: how many are random, which are kept, which are drawn."""
    law = dict.fromkeys(map(frozenset, itertools.combinations(range(d), n)), 0.0)
    for r in range(n + 1):
        for kept in itertools.combinations(top, n - r):
            others = sorted(set(range(d)) - set(kept))
            chance = stats.binom.pmf(r, n, alpha) / math.comb(n, r) / math.comb(len(others), r)
            for drawn in itertools.combinations(others, r):
                law[frozenset(kept + drawn)] += chance
    return law


@pytest.mark.parametrize(("d", "n"), [(2, 1), (6, 1), (5, 2), (6, 3), (7, 4), (5, 4)])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_epsilon_is_the_largest_ratio_of_all_outcomes(d, n, alpha):
    here, there = (law_of_proposal(d, n, alpha, top) for top in (range(n), [*range(n - 1), n]))
    assert sum(here.values()) == pytest.approx(1)
    largest = max(here[proposal] / there[proposal] for proposal in here)
    assert theory.coordinate_epsilon(d, n, alpha) == pytest.approx(math.log(largest), rel=1e-12)


@pytest.mark.parametrize(("d", "n", "alpha"), [(10**6, 500, Fraction(1, 2)), (10**6, 300, Fraction(999, 1000))])
def test_epsilon_in_the_millions_is_that_of_integer_arithmetic(d, n, alpha):
    odds = (1 - alpha) / alpha
    inside = outside = 0
    term = odds.denominator**n  # times C(d,i) y^i, an integer for i <= n
    for i in range(n + 1):
        inside, outside = inside + i * term, outside + (n - i) * term
        term = term * (d - i) * odds.numerator // ((i + 1) * odds.denominator)
    expected = math.log1p(Fraction(inside, outside))
    assert theory.coordinate_epsilon(d, n, float(alpha)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("d", "n", "alpha"), [(10**6, 10**5, 0.9), (10**7, 10**6, 0.9001), (10**6, 10**5, 0.95), (10**7, 10**5, 0.9899)]
)
def test_epsilon_in_the_millions_is_that_of_a_binomial_variable(d, n, alpha):
    """e^eps - 1 = E[B; B <= n] / E[(n-B)^+] for B ~ Bin(d, 1 - alpha); the first is d (1-alpha) P[Bin(d-1) < n]."""
    mean = d * (1 - alpha) * stats.binom.cdf(n - 1, d - 1, 1 - alpha)
    rest = n * stats.binom.cdf(n, d, 1 - alpha) - mean
    assert theory.coordinate_epsilon(d, n, alpha) == pytest.approx(math.log1p(mean / rest), rel=1e-8)


@given(d=st.integers(2, 400), share=st.floats(0, 1), alpha=ALPHAS)
def test_epsilon_is_below_the_simple_bound_and_that_below_the_printed_ones(d, share, alpha):
    n = max(1, min(d - 1, round(share * d)))
    exact, simple = theory.coordinate_epsilon(d, n, alpha), theory.coordinate_epsilon_bound(d, n, alpha)
    assert simple == pytest.approx(math.log(1 + (1 - alpha) / alpha * (d - n + 1)), rel=1e-12)
    assert exact == pytest.approx(simple, rel=1e-9) if n == 1 else exact < simple
    if n > 1:
        assert simple <= theory.coordinate_epsilon_printed(d, n, alpha) + 1e-12


@given(d=st.integers(3, 300), n=st.integers(1, 299), alphas=st.tuples(ALPHAS, ALPHAS))
def test_epsilon_falls_as_alpha_grows(d, n, alphas):
    low, high = theory.coordinate_epsilon(d, min(n, d - 1), np.sort(alphas))
    assert 0 < high <= low


def test_printed_epsilon():
    """Theorem 2 and eq. 56 as they stand, and the case d = 20, alpha = 0.3 in which the theorem is false."""
    assert math.exp(theory.coordinate_epsilon_printed(50, 7, 0.4)) == pytest.approx(1.4 * 7 * 44 / 0.8, rel=1e-12)
    alpha = 1 - 1e-12
    near_one = math.log1p((1 - alpha) / alpha * (2**3 + 1) * 20**3)
    assert theory.coordinate_epsilon_printed(20, 3, alpha) == pytest.approx(near_one, rel=1e-9)
    assert theory.coordinate_epsilon_printed(20, 3, 0.5) == pytest.approx(math.log(1.5 * 3 * 18))
    assert theory.coordinate_epsilon_printed(10**7, 10**6, 1.0) == 0
    exact, printed = theory.coordinate_epsilon(20, 1, 0.3), theory.coordinate_epsilon_printed(20, 1, 0.3)
    assert math.exp(exact) == pytest.approx(1 + 7 / 3 * 20)
    assert math.exp(printed) == pytest.approx(130 / 3)


@given(d=st.integers(3, 10**6), alpha=ALPHAS)
def test_printed_epsilon_is_false_for_one_coordinate_below_an_alpha(d, alpha):
    threshold = d / (3 * d - 2)
    if abs(alpha - threshold) > 1e-6:
        exact, printed = theory.coordinate_epsilon(d, 1, alpha), theory.coordinate_epsilon_printed(d, 1, alpha)
        assert (printed < exact) == (alpha < threshold)


def test_epsilon_at_the_ends():
    ends = theory.coordinate_epsilon(10**6, 10, np.array([0, 5e-324, 1 - 2**-53, 1]))
    assert ends[0] == math.inf and 700 < ends[1] < 800 and 0 < ends[2] < 1e-10 and ends[3] == 0
    assert theory.coordinate_epsilon_bound(9, 2, 0.0) == theory.coordinate_epsilon_printed(9, 2, 0.0) == math.inf
    assert theory.coordinate_epsilon_bound(9, 2, 1.0) == 0
    assert theory.coordinate_epsilon(5, 5, 0.0) == 0, "there is only one set"
    assert isinstance(theory.coordinate_epsilon(20, 3, 0.5), float)


def proposals(rng, updates, n, alpha):
    """`[m, d]`, which coordinates each client proposes (ConSpar, steps 1 to 3)."""
    m, d = updates.shape
    chosen = np.zeros((m, d), bool)
    for k in range(m):
        top = np.argsort(-np.abs(updates[k]), kind="stable")[:n]
        r = rng.binomial(n, alpha)
        kept = rng.choice(top, n - r, replace=False)
        drawn = rng.choice(np.setdiff1d(np.arange(d), kept), r, replace=False)
        chosen[k, kept] = chosen[k, drawn] = True
    assert (chosen.sum(1) == n).all()
    return chosen


def test_expected_union_is_that_of_uniform_proposals():
    rng, d, n, m = np.random.default_rng(0), 40, 5, 6
    sizes = [proposals(rng, rng.normal(size=(m, d)), n, 1.0).any(0).sum() for _ in range(1500)]
    assert abs(np.mean(sizes) - theory.expected_union(d, n, m)) < 5 * np.std(sizes) / np.sqrt(1500)
    assert theory.expected_union(7, 7, 3) == 7
    assert theory.expected_union(10**7, 1, 2) == pytest.approx(2, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_contraction_holds_for_every_honest_client(alpha):
    """Clients with one common set of largest coordinates, Byzantine ones propose it too; near equality at small n/d."""
    rng, d, n, m, f = np.random.default_rng(1), 60, 3, 8, 2
    updates = rng.choice([-1.0, 1.0], (m, d))
    left = []
    for _ in range(1500):
        union = proposals(rng, updates, n, alpha)[f:].any(0)
        union[np.arange(n)] |= f > 0
        left.append((~union).mean())
    bound, error = theory.contraction(d, n * m, m, alpha, f), 5 * np.std(left) / np.sqrt(1500)
    assert np.mean(left) <= bound.residual + error
    assert np.mean(left) >= 0.9 * bound.residual
    assert bound.kept == pytest.approx(1 - bound.residual) and bound.inverse == pytest.approx(1 / bound.kept)


def test_contraction_is_the_printed_formula():
    d, k, m, alpha, f = 1000, 96, 32, 0.7, 7
    x = alpha * k * ((1 - f / m) * m - 1) / (m * d)
    kept = d * (1 - math.exp(-x)) + k / m * math.exp(-x)
    found = theory.contraction(d, k, m, alpha, f)
    assert found.kept == pytest.approx(kept / d, rel=1e-12)
    assert found.inverse == pytest.approx(d / kept, rel=1e-12)
    assert theory.contraction(d, k, m, 0.0).inverse == pytest.approx(m * d / k, rel=1e-12)
    assert theory.contraction(32, 1024, 32, 0.3).residual == 0
    assert theory.contraction(10**7, 32, 32, 0.0).kept == pytest.approx(1e-7, rel=1e-12)


@given(alphas=st.tuples(ALPHAS, ALPHAS), f=st.integers(0, 15), n=st.integers(1, 50))
def test_contraction_improves_with_alpha_and_suffers_from_byzantine_clients(alphas, f, n):
    contraction = functools.partial(theory.contraction, 100, 32 * n, 32)
    low, high = (contraction(alpha, f).kept for alpha in sorted(alphas))
    assert n / 100 <= low <= high <= 1
    assert contraction(alphas[0], f).inverse >= contraction(alphas[0]).inverse


def all_vectors(d):
    return np.array(list(itertools.product([-1.0, 0.0, 2.0], repeat=d)))


def test_dissimilarity_is_an_identity_for_independent_supports():
    """All outcomes of two dependent vectors and two dependent random supports, the ones independent of the others."""
    rng, d = np.random.default_rng(2), 3
    v = all_vectors(d)
    other = rng.permutation(v) + 0.5 * v
    weight = rng.dirichlet(np.ones(len(v)))
    supports = np.array(list(itertools.product([False, True], repeat=2 * d))).reshape(-1, 2, d)
    chance = rng.dirichlet(np.ones(len(supports)))
    first, second = supports[:, 0], supports[:, 1]
    distance = np.square(v[:, None] * first - other[:, None] * second).sum(2)
    found = theory.dissimilarity(
        weight @ np.square(v - other), weight @ np.square(v), weight @ np.square(other),
        both=chance @ (first & second), only_first=chance @ (first & ~second), only_second=chance @ (~first & second),
    )  # fmt: skip
    assert found == pytest.approx(weight @ distance @ chance, rel=1e-12)


def test_dissimilarity_is_too_small_for_a_support_that_follows_the_vector():
    half, none = np.full(2, 0.5), np.zeros(2)
    found = theory.dissimilarity(half, half, none, both=none, only_first=half, only_second=none)
    assert found == pytest.approx(0.5)
    outcomes = [np.square(v).sum() for v in np.eye(2)]  # top-1 of v is v
    assert np.mean(outcomes) == 1


def test_dissimilarity_of_a_common_support_never_grows():
    rng, d = np.random.default_rng(3), 5
    difference, first, second, none = *rng.random((3, 4, d)), np.zeros((4, d))
    found = theory.dissimilarity(difference, first, second, both=rng.random(d), only_first=none, only_second=none)
    assert found.shape == (4,) and (found <= difference.sum(1)).all()


def test_communication():
    found = theory.communication(320, 32, np.array([10, 200.5, 320]))
    np.testing.assert_allclose(found.up_words, [20, 210.5, 330])
    np.testing.assert_allclose(found.down_words, [20, 401, 640])
    np.testing.assert_allclose(found.bits, 32 * (found.up_words + found.down_words))
    assert theory.communication(320, 32).bits == (96 + 32 / 32) * 320 < 128 * 320


@given(ratio=st.floats(1e-6, 0.6), m=st.integers(2, 10**4))
def test_sparse_secagg_sends_the_ratio(ratio, m):
    alpha = theory.sparse_secagg_alpha(ratio, m)
    assert sparse_secagg.selection_probability(m, alpha) == pytest.approx(ratio, rel=1e-9)


def test_sparse_secagg_at_its_most():
    assert theory.sparse_secagg_alpha(1 - (1 - 1 / 31) ** 31, 32) == pytest.approx(1)


PROBLEM = theory.Problem(smoothness=1.0, heterogeneity=1.0, gradient_norm=2.0, gradient_std=1.0, initial_gap=1.0)
test_bad_arguments = refused(
    (lambda: theory.coordinate_epsilon(5, 6, 0.1), "num_coordinates must be at most num_params = 5, got 6"),
    (lambda: theory.coordinate_epsilon(5, 0, 0.1), "num_coordinates must be an integer >= 1, got 0"),
    (lambda: theory.coordinate_epsilon_bound(5.0, 1, 0.1), "num_params must be an integer >= 1, got 5.0"),
    (lambda: theory.coordinate_epsilon_printed(5, 1, 1.1), r"alpha must be in \[0, 1\], got 1.1"),
    (lambda: theory.expected_union(5, 2, 0), "num_clients must be an integer >= 1, got 0"),
    (lambda: theory.contraction(50, 33, 32, 0.1), "k must be a multiple of num_clients = 32, got 33"),
    (lambda: theory.contraction(50, 32, 32, 0.1, 16), "byzantine must be fewer than half of num_clients = 32"),
    (lambda: theory.contraction(2, 96, 32, 0.1), r"k must be at most num_clients \* num_params = 64, got 96"),
    (lambda: theory.communication(32, 32, 33), r"union must be from k / num_clients = 1.0 to k = 32, got 33"),
    (lambda: theory.communication(64, 32, 1), r"union must be from k / num_clients = 2.0 to k = 64, got 1"),
    (lambda: theory.sparse_secagg_alpha(0.7, 32), r"ratio must be at most 1 - \(1 - 1/\(m-1\)\)\^\(m-1\) for m"),
    (lambda: unwrap(theory.memory_bound)(PROBLEM, 2.0, 0.1, 5, decaying="no"), "decaying must be one of True, False"),
    (lambda: theory.sparse_secagg_alpha(0.0, 32), r"ratio must be in \(0, 1\), got 0.0"),
)


MOMENTS = dict.fromkeys(("difference", "first", "second", "both", "only_first", "only_second"), np.full(2, 0.5))
test_bad_moments = refused(
    *each(difference=[-1.0], second=[-1.0], both=[1.1], only_first=[-0.1], only_second=[2.0]),
    pattern="^{} must be in",
    by=lambda bad: theory.dissimilarity(**MOMENTS | {name: np.full(2, value) for name, value in bad.items()}),
)

"""The paper's bounds: published figures, formulas in another form, and the errata."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from fedjax_priv.theory import gaussian
from fedjax_priv.theory import wireless as theory

K = 200
NOISE = 0.1
ROUND = theory.Round(K, 0.3, clip=1.0, noise_variance=NOISE)

BETA_TOO_LARGE = r"delta_prime must be in \(2 exp\(-2 m\^2/K\), 1\) = \(0.718"


def papers_delta_prime(p):
    return 2 * math.exp(-2 * K * p**2) + 1e-5


def arguments(p, **changes):
    return ROUND._replace(participation=p, **changes), 1e-5, papers_delta_prime(p)


def noise_of(c, delta_local):
    """The sigma^2 at which c = (2L/sigma) sqrt(2 log(1.25/delta_l)) for L = 1."""
    return (2 * gaussian.classical_epsilon(delta_local, 1.0) / c) ** 2


@pytest.mark.parametrize(
    ("found", "printed"),
    [
        (theory.local_epsilon(*arguments(0.3, receiver_noise=1.0)), 5.124),
        (theory.local_epsilon(*arguments(0.3)), 6.037),
        (theory.central_epsilon(*arguments(0.9)), 2.447),
        (theory.central_epsilon_printed(*arguments(0.9)), 3.132),
    ],
)
def test_published_figures(found, printed):
    assert found == pytest.approx(printed, abs=5e-4)


def test_participants():
    assert [theory.participation_moments(K, p).mean for p in (0.3, 0.9)] == pytest.approx([60, 180])


@pytest.mark.parametrize("p", [0.3, 0.9])
def test_central_epsilon_is_corollary_1(p):
    *_, delta_prime = arguments(p)
    beta = math.sqrt(0.5 * math.log(2 / delta_prime)) / math.sqrt(K)
    c = 2 / math.sqrt(NOISE) * math.sqrt(2 * math.log(1.25e5))
    x = c / math.sqrt(K * (p - beta))
    expected = math.log(1 + p / (1 - delta_prime) * math.expm1(x))
    assert theory.central_epsilon(*arguments(p, receiver_noise=3.0)) == pytest.approx(expected, rel=1e-12)
    weaker = theory.central_epsilon_printed(*arguments(p)) >= expected
    assert weaker == (p * (math.exp(x) + 1) >= 1 - delta_prime)
    assert theory.central_delta(*arguments(p)) == pytest.approx(delta_prime + p * 1e-5 / (1 - delta_prime))


def test_bounds_of_unequal_users_are_those_of_the_worst():
    p, noise = np.full(K, 0.5), np.full(K, 3.0)
    p[3], noise[9] = 0.8, NOISE
    m, delta_prime = p.sum(), 1e-4
    width = math.sqrt(0.5 * K * math.log(2 / delta_prime))
    c = 2 / math.sqrt(NOISE) * math.sqrt(2 * math.log(1.25e5))
    unequal = ROUND._replace(participation=p, noise_variance=noise), 1e-5, delta_prime
    found = theory.central_epsilon(*unequal)
    assert found == pytest.approx(math.log1p(0.8 / (1 - 1e-4) * math.expm1(c / math.sqrt(m - width))), rel=1e-12)
    assert theory.local_epsilon(*unequal) == pytest.approx(c / math.sqrt(1 + m - 0.8 - width), rel=1e-12)
    assert theory.local_delta(*unequal) == pytest.approx(0.8 * (1e-5 + delta_prime))


@pytest.mark.parametrize("num_users", [100, 10**4, 10**6])
def test_optimal_epsilon_is_lemma_1(num_users):
    p = theory.optimal_participation(num_users, 1e-4)
    assert p == pytest.approx(2 / math.sqrt(num_users) * math.sqrt(0.5 * math.log(2e4)))
    c = 2 / 3 * math.sqrt(2 * math.log(1.25e4))
    exponent = c / (0.5 * num_users * math.log(2e4)) ** 0.25
    expected = math.log1p(p / (1 - 1e-4) * math.expm1(exponent))
    assert theory.central_epsilon(theory.Round(num_users, p, 1.0, 9.0), 1e-4, 1e-4) == pytest.approx(expected, rel=1e-9)


def test_optimal_participation_of_few_users_is_all():
    assert theory.optimal_participation(19, 1e-4) == 1 > theory.optimal_participation(20, 1e-4)


def minimiser(num_users, c, delta_prime):
    beta = math.sqrt(0.5 * math.log(2 / delta_prime) / num_users)
    p = np.linspace(beta + 1e-3, 1, 800)
    setting = theory.Round(num_users, p, 1.0, noise_of(c, 1e-5))
    eps = [theory.central_epsilon(setting._replace(participation=x), 1e-5, delta_prime) for x in p]
    return p[np.argmin(eps)]


def test_lemma_1_minimises_the_linearised_bound_only():
    optimal = theory.optimal_participation(1000, 1e-4)
    minimisers = [minimiser(1000, c, 1e-4) for c in (1e-3, 5.0, 20.0, 100.0)]
    assert minimisers[0] == pytest.approx(optimal, abs=2e-3)
    assert optimal < minimisers[1] - 0.02 < minimisers[2] - 0.2
    assert minimisers[3] == 1


def test_eq_41_has_its_sign_reversed():
    """Linearised, at c near 0: convex at 2 beta K, concave past 4 beta K."""
    beta, step = theory.optimal_participation(1000, 1e-4) / 2, 1e-2
    bound = lambda p: theory.central_epsilon(theory.Round(1000, p, 1.0, noise_of(1e-3, 1e-5)), 1e-5, 1e-4)
    second = lambda p: bound(p + step) + bound(p - step) - 2 * bound(p)
    assert second(2 * beta) > 0 > second(5 * beta)


def at_optimum(num_users, variance=9.0):
    return theory.Round(num_users, theory.optimal_participation(num_users, 1e-4), 1.0, variance)


def scheme_epsilons(num_users, variance):
    setting = at_optimum(num_users, variance)
    others = theory.unsampled_epsilon, theory.sampled_orthogonal_epsilon, theory.orthogonal_epsilon
    return theory.central_epsilon(setting, 1e-4, 1e-4), *(scheme(setting, 1e-4) for scheme in others)


@pytest.mark.parametrize(("variance", "first"), [(9.0, 156), (3.0, 253)])
def test_fig_2a_sampling_pays_from_some_number_of_users(variance, first):
    pays = []
    for num_users in range(20, 400):
        sampled, unsampled, *_ = scheme_epsilons(num_users, variance)
        pays.append(sampled < unsampled)
    assert pays == [num_users >= first for num_users in range(20, 400)]
    assert theory.central_delta(at_optimum(156), 1e-4, 1e-4) > 1e-4


@pytest.mark.parametrize(
    ("low", "high", "slopes"), [(100, 1000, (-0.755, -0.5, -0.24, 0)), (10**5, 10**6, (-0.76, -0.5, -0.47, 0))]
)
def test_table_1_as_slopes(low, high, slopes):
    sizes = np.geomspace(low, high, 8).astype(int)
    eps = np.array([scheme_epsilons(int(size), 9.0) for size in sizes])
    found = np.polyfit(np.log(sizes), np.log(eps), 1)[0]
    np.testing.assert_allclose(found, slopes, atol=5e-3)


@pytest.mark.parametrize(
    ("delta_prime", "c", "falls"), [(1e-5, 2, True), (0.01, 2, True), (0.01, 8, True), (0.9, 2, False), (0.9, 8, True)]
)
def test_fig_6_has_its_stated_shape_only_for_beta_near_0(delta_prime, c, falls):
    assert (minimiser(20, c, delta_prime) == 1) == falls


def test_eq_14_is_not_convex():
    p = np.linspace(0.15, 1, 100)
    eps = [theory.central_epsilon(theory.Round(20, x, 1.0, noise_of(2, 1e-5)), 1e-5, 0.9) for x in p]
    assert (np.diff(eps, 2) < 0).any() and (np.diff(eps, 2) > 0).any()


@given(p=st.floats(0.25, 1), log_noise=st.floats(-2, 2), receiver=st.floats(0, 10))
def test_analytic_bounds(p, log_noise, receiver):
    given_ = arguments(p, noise_variance=10**log_noise, receiver_noise=receiver)
    delta_prime = given_[-1]
    deviation = math.sqrt(0.5 * K * math.log(2 / delta_prime))
    sensitivity = lambda count: 2 / math.sqrt(count * 10**log_noise + receiver)
    x = gaussian.epsilon(1e-5, sensitivity(K * p - deviation))
    analytic = theory.central_epsilon_analytic(*given_)
    assert math.expm1(analytic) == pytest.approx(p / (1 - delta_prime) * math.expm1(x), rel=1e-9, abs=1e-12)
    local = theory.local_epsilon_analytic(*given_)
    expected = gaussian.epsilon(1e-5, sensitivity(1 + (K - 1) * p - deviation))
    assert local == pytest.approx(expected, rel=1e-9, abs=1e-12)
    sharp = theory.central_epsilon_sharp(*given_)
    assert sharp <= analytic + 1e-12
    if theory.central_epsilon(*given_) < 8:
        assert analytic <= theory.central_epsilon(*given_) + 1e-12


def test_sharp_epsilon_is_the_worst_count():
    p, delta_prime = 0.3, papers_delta_prime(0.3)
    width = math.sqrt(0.5 * K * math.log(2 / delta_prime))
    counts = [r for r in range(1, K + 1) if abs(r - K * p) < width]
    eps = [math.log1p(r / K * math.expm1(gaussian.epsilon(1e-5, 2 / math.sqrt(r * NOISE + 1)))) for r in counts]
    assert theory.central_epsilon_sharp(*arguments(p, receiver_noise=1.0)) == pytest.approx(max(eps), rel=1e-12)


def test_bounds_of_a_million_users():
    many = theory.Round(10**6, 0.01, 1.0, 1.0)
    for setting in (many, many._replace(participation=np.full(10**6, 0.01))):
        assert 0 < theory.central_epsilon(setting, 1e-5, 1e-5) < 1
        assert 0 < theory.local_epsilon(setting, 1e-5, 1e-5) < 1
    assert theory.central_epsilon(many._replace(clip=1e3, noise_variance=1e-6), 1e-5, 1e-5) > 1e4, "no overflow"


@pytest.mark.parametrize("num_users", [1, 7])
def test_other_schemes(num_users):
    c = 2 / 0.5 * math.sqrt(2 * math.log(1.25e5))
    setting = theory.Round(num_users, 0.3, 1.0, 0.25)
    assert theory.orthogonal_epsilon(setting, 1e-5) == pytest.approx(c)
    assert theory.orthogonal_epsilon(theory.Round(2, 0.3, 1.0, np.array([4.0, 0.25])), 1e-5) == pytest.approx(c)
    assert theory.sampled_orthogonal_epsilon(setting, 1e-5) == pytest.approx(math.log(1 + 0.3 * math.expm1(c)))
    assert theory.unsampled_epsilon(setting, 1e-5) == pytest.approx(c / math.sqrt(num_users))


def test_rigorous_other_schemes():
    setting = theory.Round(7, 0.3, 1.0, 0.25, 0.5)
    alone, everyone = (gaussian.delta(1.5, 2 / math.sqrt(users * 0.25 + 0.5)) for users in (1, 7))
    assert theory.rigorous_orthogonal_delta(setting, 1.5) == pytest.approx(alone)
    assert theory.rigorous_sampled_orthogonal_delta(setting, 1.5) == pytest.approx(0.3 * alone)
    assert theory.rigorous_unsampled_delta(setting, 1.5) == pytest.approx(everyone)
    assert theory.rigorous_orthogonal_epsilon(setting, alone) == pytest.approx(1.5)
    assert theory.rigorous_sampled_orthogonal_epsilon(setting, 0.3 * alone) == pytest.approx(1.5)
    assert theory.rigorous_sampled_orthogonal_epsilon(setting, 0.4) == 0
    assert theory.rigorous_unsampled_epsilon(setting, everyone) == pytest.approx(1.5)


def test_composition():
    e, d = np.array([0.1, 0.5, 2.0]), np.array([1e-3, 0.0, 1e-2])
    found = theory.compose_heterogeneous(e, d, 0.1)
    first = sum(x * (math.exp(x) - 1) / (math.exp(x) + 1) for x in e)
    assert found.epsilon == pytest.approx(first + math.sqrt(2 * math.log(10) * (e**2).sum()))
    assert found.delta == pytest.approx(1 - 0.9 * np.prod(1 - d))
    assert theory.compose_heterogeneous(e, 2.0, 1.0).delta == 1
    same = theory.compose_homogeneous(0.5, 1e-3, 10, 0.1)
    assert same.epsilon == pytest.approx(math.sqrt(20 * math.log(10)) * 0.5 + 5 * math.expm1(0.5))
    assert same.delta == pytest.approx(0.11)


def test_closed_composition_is_looser():
    p = np.array([0.4, 0.5, 0.9])
    setting = theory.Round(K, p, 1.0, 4.0)
    closed = theory.compose_heterogeneous_closed(setting, 1e-5, 1e-3, 0.1)
    eps = np.array([theory.central_epsilon(setting._replace(participation=x), 1e-5, 1e-3) for x in p])
    assert closed >= theory.compose_heterogeneous(eps, 0.0, 0.1).epsilon
    each = setting._replace(participation=np.broadcast_to(p[:, None], (3, K)))
    assert theory.compose_heterogeneous_closed(each, 1e-5, 1e-3, 0.1) == pytest.approx(closed)
    width = math.sqrt(0.5 * K * math.log(2e3))
    b = math.expm1(math.sqrt(2 * math.log(1.25e5)) / math.sqrt(80 - width)) * math.sqrt((p**2).sum()) / (1 - 1e-3)
    assert closed == pytest.approx(b**2 / 2 + math.sqrt(2 * math.log(10)) * b)


def test_fig_2b_vanishes_at_a_delta_that_does_not():
    rounds, previous = 100, math.inf
    for num_users in (10**3, 10**4, 10**5):
        claim = at_optimum(num_users), 1e-4, 1e-4
        total = theory.compose_homogeneous(theory.central_epsilon(*claim), theory.central_delta(*claim), rounds, 1e-4)
        assert total.epsilon < previous / 3 and total.delta > rounds * 1e-4
        previous = total.epsilon


FEW = theory.Round(20, 0.9, 1.0, 1.0)


def of_few(**changes):
    return theory.central_epsilon(FEW._replace(**changes), 1e-5, 0.5)


test_bad_arguments = refused(
    (lambda: of_few(participation=0.16), BETA_TOO_LARGE),
    (lambda: of_few(participation=0.1), "participation must be above"),
    (lambda: theory.central_epsilon(FEW, 1e-5, 1.0), r"delta_prime must be in \(0, 1\), got 1.0"),
    (lambda: of_few(participation=1.1), r"participation must be in \[0, 1\], got 1.1"),
    (lambda: of_few(num_users=2, participation=np.ones(3)), "participation must be a number, or one"),
    (lambda: of_few(num_users=2**40), "num_users must be an integer from 1 to 1048576, got"),
    (lambda: theory.contraction_weights(2**40, 0.5), "rounds must be an integer from 1 to 1048576, got"),
    (lambda: of_few(clip=0.0), r"clip must be in \(0, inf\), got 0.0"),
    (lambda: of_few(noise_variance=0.0), r"noise_variance must be in \(0, inf\)"),
    (lambda: of_few(noise_variance=np.ones(2)), "noise_variance must be a number, or one per user: num_users = 20"),
    (lambda: theory.central_epsilon(FEW, 0.0, 0.5), r"delta_local must be in \(0, 1\], got 0.0"),
    (lambda: theory.central_delta(FEW._replace(participation=0.16), 1e-5, 0.5), BETA_TOO_LARGE),
    (lambda: theory.central_epsilon_sharp(FEW._replace(participation=np.full(20, 0.9)), 1e-5, 0.5),
     "participation must be a"),
    (lambda: theory.local_epsilon(FEW._replace(participation=0.1), 1e-5, 1e-5), "delta_prime must be such that ka"),
    (lambda: theory.optimal_participation(0, 0.1), "num_users must be an integer >= 1, got 0"),
    (lambda: theory.compose_homogeneous(1.0, 0.1, 2, 0.0), r"slack must be in \(0, 1\], got 0.0"),
    (lambda: theory.compose_heterogeneous_closed(FEW, 1e-5, 0.5, 1e-5),
     r"participation must be `\[T\]` or `\[T, K\]`: of each round, got 0.9"),
    (lambda: theory.compose_heterogeneous(np.ones(2), -0.1, 0.1), r"delta must be in \[0, inf\), got -0.1"),
    (lambda: theory.sampled_orthogonal_epsilon(FEW._replace(participation=0.0), 1e-5),
     r"participation must be in \(0, 1\], got 0.0"),
)  # fmt: skip

"""Counts, the estimate's moments and the convergence bounds, by enumeration of all sets of users."""

import itertools
import math

import numpy as np
import pytest
from refusals import refused

from fedjax_priv.theory import wireless as theory

PARTICIPATION = np.array([0.2, 0.9, 0.5, 0.35])
GRADIENTS = np.array([[1.0, 0.0, 2.0], [0.5, -1.0, 0.0], [0.0, 0.3, -2.0], [-1.0, 1.0, 0.4]])


def sets_of_users(p):
    """Every set of users and its probability."""
    for taken in itertools.product([False, True], repeat=len(p)):
        here = np.array(taken)
        yield here, np.prod(np.where(here, p, 1 - p))


def moments_of(gradients, p, variance, receiver, scale):
    """Mean and second moment of scale(R) times the received signal; nothing is estimated where scale is 0."""
    mean, second, d = np.zeros(gradients.shape[1]), 0.0, gradients.shape[1]
    for here, chance in sets_of_users(p):
        factor, total = scale(here.sum()), here @ gradients
        mean += chance * factor * total
        second += chance * factor**2 * (total @ total + d * (here @ variance + receiver))
    return mean, second


def test_law_of_the_count():
    law = np.zeros(5)
    for here, chance in sets_of_users(PARTICIPATION):
        law[here.sum()] += chance
    np.testing.assert_allclose(theory.count_law(4, PARTICIPATION), law, rtol=1e-12)
    found, r = theory.participation_moments(4, PARTICIPATION), np.arange(5)
    assert found == pytest.approx((law @ r, law @ r**2 - (law @ r) ** 2, 1 - law[0]))
    assert theory.inverse_moments(4, PARTICIPATION) == pytest.approx(
        (law[1:] @ (1 / r[1:]), law[1:] @ (1 / r[1:] ** 2))
    )


def test_law_of_many_users():
    p = 0.3
    almost = np.full(1000, p)
    almost[0] += 1e-14  # adds users one by one
    np.testing.assert_allclose(theory.count_law(1000, almost), theory.count_law(1000, p), rtol=1e-8, atol=1e-300)
    assert theory.count_law(10**6, 0.01).sum() == pytest.approx(1, rel=1e-9)
    everyone = theory.count_law(3, 1.0)
    np.testing.assert_array_equal(everyone, [0, 0, 0, 1])
    assert theory.participation_moments(3, 1.0) == (3, 0, 1)


def test_taylor_moments_are_crude_for_few_users():
    for size, first, second in ((20, 0.43, 0.59), (200, 0.005, 0.026)):
        exact, taylor = theory.inverse_moments(size, 0.1), theory.inverse_moments_taylor(size, 0.1)
        assert abs(taylor.first / exact.first - 1) == pytest.approx(first, rel=0.05)
        assert abs(taylor.second / exact.second - 1) == pytest.approx(second, rel=0.05)
    m, v = 20, 18
    assert taylor == pytest.approx((1 / m + v / m**3, 1 / m**2 + 3 * v / m**4))


def test_estimate_with_the_count_unknown():
    variance = np.array([0.1, 0.4, 0.2, 0.3])
    m = PARTICIPATION.sum()
    mean, second = moments_of(GRADIENTS, PARTICIPATION, variance, 0.7, lambda r: 1 / m)
    found = theory.estimate_moments_unknown(theory.Round(4, PARTICIPATION, 4.0, variance, 0.7), GRADIENTS)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12)
    assert found.second == pytest.approx(second, rel=1e-12)
    np.testing.assert_allclose(theory.estimate_weights_unknown(4, PARTICIPATION) @ GRADIENTS, mean, rtol=1e-12)


def test_estimate_with_the_count_known():
    p, zeta = np.full(4, 0.4), 1 - 0.6**4
    mean, second = moments_of(GRADIENTS, p, np.full(4, 0.2), 0.7, lambda r: 1 / (zeta * r) if r else 0)
    setting = theory.Round(4, 0.4, 4.0, 0.2, 0.7)
    found = theory.estimate_moments_known(setting, GRADIENTS)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(mean, GRADIENTS.mean(0), rtol=1e-12)
    assert found.second == pytest.approx(second, rel=1e-12)
    alone = theory.estimate_moments_known(setting._replace(num_users=1), GRADIENTS[:1])
    assert alone.second == pytest.approx((5 + 3 * (0.2 + 0.7)) / 0.4)


def test_estimates_are_biased_towards_likely_users():
    zeta = 1 - np.prod(1 - PARTICIPATION)
    none = np.zeros(4)
    mean, _ = moments_of(GRADIENTS, PARTICIPATION, none, 0.0, lambda r: 1 / (zeta * r) if r else 0)
    known, unknown = theory.estimate_weights_known(4, PARTICIPATION), theory.estimate_weights_unknown(4, PARTICIPATION)
    np.testing.assert_allclose(known @ GRADIENTS, mean, rtol=1e-12)
    assert known.sum() == pytest.approx(1) and unknown.sum() == pytest.approx(1)
    assert (np.argsort(known) == np.argsort(PARTICIPATION)).all() and known.max() > 0.3 and unknown.max() > 0.4
    np.testing.assert_allclose(theory.estimate_weights_known(4, 0.3), 0.25)


PROBLEM = theory.Problem(smoothness=0.9, convexity=0.2, num_params=3)
ROUND = theory.Round(20, 0.1, clip=2.0, noise_variance=0.1, receiver_noise=1.0)


@pytest.mark.parametrize("p", [0.1, 0.6, 1.0])
def test_moments_of_the_bounds_are_attained_by_equal_gradients_of_full_length(p):
    gradients = np.tile([2.0, 0.0, 0.0], (20, 1))
    setting = ROUND._replace(participation=p)
    unknown = theory.estimate_moments_unknown(setting, gradients).second
    assert theory.moment_unknown(PROBLEM, setting) == pytest.approx(unknown, rel=1e-12)
    known = theory.estimate_moments_known(setting, gradients).second
    assert theory.moment_known(PROBLEM, setting) == pytest.approx(known, rel=1e-12)


def test_convergence_bounds():
    setting = ROUND._replace(participation=np.linspace(0.1, 0.9, 20))
    for bound, moment in (
        (theory.convergence_bound_unknown, theory.moment_unknown),
        (theory.convergence_bound_known, theory.moment_known),
    ):
        expected = 2 * 0.9 / 0.2**2 * moment(PROBLEM, setting) / 4000
        assert bound(PROBLEM, setting, 4000) == pytest.approx(expected)
    varying = np.array([1.0, 2.0, 6.0])
    assert theory.convergence_bound(PROBLEM, varying, 3) == pytest.approx(2 * 0.9 / 0.04 * 3 / 3)
    several = theory.convergence_bound(PROBLEM, 3.0, np.array([1, 2]))
    np.testing.assert_allclose(several, 2 * 0.9 / 0.04 * 3 / np.array([1, 2]))
    noises = setting._replace(noise_variance=np.append(0.1, np.full(19, 0.05)))
    assert theory.moment_unknown(PROBLEM, noises) == theory.moment_unknown(PROBLEM, setting)


def test_convergence_bound_holds_with_room_in_its_recursion():
    """a_{t+1} = (1 - 2/t) a_t + G^2/(lambda t)^2 for the squared distance, and F - F* <= (mu/2) a_T."""
    squared, moment = 0.0, 5.0
    for t in range(2, 1001):
        squared = (1 - 2 / t) * squared + moment / (0.2 * t) ** 2
    assert 0.9 / 2 * squared <= theory.convergence_bound(PROBLEM, moment, 1000)


@pytest.mark.parametrize("num_users", [50, 10**6])
def test_corollary_2_is_theorem_2(num_users):
    setting = ROUND._replace(num_users=num_users)
    found = theory.convergence_bound_optimal(PROBLEM, setting, 1e-5, 7)
    both = theory.convergence_bound_optimal(PROBLEM, setting, np.array([1e-5, 1e-4]), 7)
    np.testing.assert_allclose(both, [found, theory.convergence_bound_optimal(PROBLEM, setting, 1e-4, 7)], rtol=1e-12)
    optimal = setting._replace(participation=theory.optimal_participation(num_users, 1e-5))
    assert found == pytest.approx(theory.convergence_bound_unknown(PROBLEM, optimal, 7), rel=1e-9)


def test_unknown_does_not_always_beat_known():
    problem, shares = PROBLEM._replace(num_params=30), (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
    for size, lower in ((20, (0.1, 0.2, 0.3)), (200, ())):
        for p in shares:
            setting = ROUND._replace(num_users=size, participation=p)
            unknown, known = (kind(problem, setting) for kind in (theory.moment_unknown, theory.moment_known))
            assert (unknown < known) == (p in lower)


def test_taylor_form_of_the_known_bound():
    m, v, zeta = 20, 18, 1 - 0.9**200
    expected = 4 / zeta + 3 / zeta**2 * (0.1 * (1 / m + v / m**3) + 1 / m**2 + 3 * v / m**4)
    assert theory.moment_known_taylor(PROBLEM, ROUND._replace(num_users=200)) == pytest.approx(expected)


test_bad_arguments = refused(
    (lambda: theory.moment_unknown(PROBLEM, ROUND._replace(participation=0.0)), "participation must be pos"),
    (lambda: theory.convergence_bound(PROBLEM._replace(convexity=1.0), 1.0, 1), "smoothness must be at least"),
    (lambda: theory.convergence_bound(PROBLEM, np.ones(3), 1000),
     r"moments must be a number, or \[T\], T = iterations = 1000, got shape \(3,\)"),
    (lambda: theory.convergence_bound(PROBLEM, np.ones(0), 1), r"moments must be a number, or \[T\], T = iter"),
    (lambda: theory.convergence_bound(PROBLEM, np.ones(1), np.array([1, 2])), "moments must be a number, or"),
    (lambda: theory.convergence_bound(PROBLEM, 1.0, 0), "iterations must be an integer >= 1, got 0"),
    (lambda: theory.estimate_moments_known(ROUND._replace(participation=np.full(4, 0.4)), GRADIENTS),
     "participation must be one"),
    (lambda: theory.estimate_moments_unknown(ROUND, GRADIENTS), r"gradients must be of shape \[K, d\]"),
    (lambda: theory.convergence_bound_optimal(PROBLEM, ROUND, 1e-5, 1),
     r"num_users must be above 2 log\(2/delta'\), for p\* < 1, got 20"),
    (lambda: theory.inverse_moments_taylor(3, math.nan), r"participation must be in \[0, 1\], got nan"),
)  # fmt: skip

"""Bounds on Renyi divergences and delta against sums over the pmf."""

import itertools
import math
from inspect import unwrap

import numpy as np
import pytest
from refusals import each, refused
from scipy import special

from fedjax_priv.theory import gaussian, skellam, zcdp

CASES = list(itertools.product([0.8, 6.0, 90.0], [1, 2, 7]))


def log_pmf(variance, shift=0):
    k = np.arange(-int(14 * math.sqrt(variance)) - 60, int(14 * math.sqrt(variance)) + 61)
    return np.log(special.ive(np.abs(k - shift), variance))


@pytest.mark.parametrize(("variance", "shift"), CASES)
def test_divergences_of_one_coordinate(variance, shift):
    here, there = log_pmf(variance), log_pmf(variance, shift)
    exact = [special.logsumexp(a * there + (1 - a) * here) / (a - 1) for a in (2, 3, 5, 8)]
    bound = skellam.rdp(float(shift), 1, variance)[[0, 1, 3, 6]]
    assert (exact <= bound).all()
    assert variance < 50 or (exact > 0.9 * bound).all()


def exact_delta(epsilon, variance, shifts):
    """Of a vector: the two laws of the privacy loss, coordinate by coordinate."""
    here, there = np.zeros(1), np.zeros(1)
    for shift in shifts:
        here = np.add.outer(here, log_pmf(variance)).ravel()
        there = np.add.outer(there, log_pmf(variance, shift)).ravel()
    return np.maximum(np.exp(there) - np.exp(epsilon + here), 0).sum()


@pytest.mark.parametrize(("variance", "shifts"), [(4.0, (1,)), (30.0, (9,)), (30.0, (4, -3)), (9.0, (2, 2))])
def test_eps_is_enough_and_not_far_from_what_is_needed(variance, shifts):
    """A vector of the stated norm; two rounds of one coordinate are two coordinates."""
    delta, d2 = 1e-5, float(np.linalg.norm(shifts))
    eps = skellam.epsilon(skellam.rdp(d2, len(shifts), variance), delta)
    assert exact_delta(eps, variance, shifts) <= delta < exact_delta(0.6 * eps, variance, shifts)
    if len(set(shifts)) == 1:
        rounds = skellam.epsilon(len(shifts) * skellam.rdp(float(shifts[0]), 1, variance), delta)
        assert exact_delta(rounds, variance, shifts) <= delta


@pytest.mark.parametrize(("distance", "d", "longest"), [(7.0, 100, 49.0), (30.0, 9, 90.0), (30.0, 10**6, 900.0)])
def test_the_corollary_with_the_longest_l1_norm(distance, d, longest):
    """An integer vector of Euclidean norm D2 has an L1 norm of at most D2^2 and of at most sqrt(d) D2."""
    for variance in (0.5, 3.0, 40.0, 1e4):
        first = ((2 * skellam.ORDERS - 1) * distance**2 + 6 * longest) / (4 * variance**2)
        want = skellam.ORDERS * distance**2 / (2 * variance) + np.minimum(first, 3 * longest / (2 * variance))
        np.testing.assert_allclose(skellam.rdp(distance, d, variance), want, rtol=1e-12)


@pytest.mark.parametrize("relative", [0.05, 0.5, 2.0])
def test_on_a_fine_grid_it_is_the_gaussian_mechanism(relative):
    eps = skellam.epsilon(skellam.rdp(1e4, 10_000, (1e4 / relative) ** 2), 1e-5)
    assert eps == pytest.approx(zcdp.epsilon(relative**2 / 2, 1e-5, "tight"), rel=0.02)


@pytest.mark.parametrize(("epsilon", "rounds"), [(0.3, 1), (2.0, 50), (20.0, 3)])
def test_variance_for_epsilon_is_the_inverse(epsilon, rounds):
    variance = skellam.variance_for_epsilon(epsilon, 1e-6, distance=200.0, num_coordinates=1000, rounds=rounds)
    spent = rounds * skellam.rdp(200.0, 1000, variance)
    assert skellam.epsilon(spent, 1e-6) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.01, 1e-3, 1e-4])
def test_a_small_eps_takes_at_most_two_thirds_more_noise_than_an_exact_gaussian(epsilon):
    """On a fine grid. With orders up to 1024 alone, eps = 0.001 took 3,364 times the noise."""
    variance = skellam.variance_for_epsilon(epsilon, 1e-5, distance=200.0, num_coordinates=1000)
    known, more = (gaussian.epsilon(1e-5, 200 / math.sqrt(v)) for v in (variance, 0.6 * variance))
    assert known < epsilon < more


def test_nothing_shifted_costs_nothing():
    assert skellam.epsilon(skellam.rdp(0.0, 5, 1.0), 1e-5) == 0


TWO = np.array([0.1, 0.2])
test_bad_arguments = refused(
    *((lambda bad=bad: unwrap(skellam.variance_for_epsilon)(
        **({"epsilon": 1.0, "delta": 0.1, "distance": 1.0, "num_coordinates": 2} | bad)), f"{name} must be one")
      for bad, name in each(epsilon=[TWO], distance=[TWO], num_coordinates=[np.array([1, 2])])),
    (lambda: skellam.rdp(-1.0, 2, 1.0), r"distance must be in \[0, inf\), got -1.0"),
    (lambda: skellam.rdp(1.0, 0, 1.0), "num_coordinates must be an integer >= 1, got 0"),
    (lambda: skellam.rdp(1.0, 2, 0.0), r"variance must be in \(0, inf\), got 0.0"),
    (lambda: skellam.epsilon(np.ones(3), 1e-5), r"rdp must be of shape \(\d+,\), got \(3,\)"),
    (lambda: skellam.epsilon(np.ones(skellam.ORDERS.size), 0.0), r"delta must be in \(0, 1\), got 0.0"),
    (lambda: skellam.variance_for_epsilon(0.0, 1e-5, distance=1.0, num_coordinates=1),
     r"epsilon must be in \(0, inf\), got 0.0"),
)  # fmt: skip

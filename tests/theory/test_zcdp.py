import math
from inspect import unwrap

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from fedjax_priv.theory import gaussian, zcdp

RHOS = st.floats(-6, 3).map(lambda power: 10**power)
DELTAS = st.floats(-12, -0.1).map(lambda power: 10**power)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 6.0])
def test_gaussian_rho_is_the_renyi_divergence_over_its_order(alpha):
    sensitivity, sigma = 1.3, 0.8
    here, there = norm(0, sigma), norm(sensitivity, sigma)
    moment, _ = quad(lambda x: np.exp(alpha * here.logpdf(x) + (1 - alpha) * there.logpdf(x)), -30, 30, points=[-5, 5])
    assert math.log(moment) / (alpha - 1) == pytest.approx(alpha * zcdp.gaussian_rho(sensitivity, sigma), rel=1e-7)


def test_conversions_of_the_paper_s_experiments():
    """The first is calibrated to 10 at delta = 1e-4; the second is a network's, ten times it."""
    rho = zcdp.rho(10, 1e-4)
    assert rho == pytest.approx(1.81739, abs=5e-6)
    for factor, expected, digits in ((1, (10.000, 9.091, 8.357), 3), (10, (44.05, 42.41, 39.82), 2)):
        paper, tight = (zcdp.epsilon(factor * rho, 1e-4, conversion) for conversion in ("paper", "tight"))
        exact = gaussian.epsilon(1e-4, math.sqrt(2 * factor * rho))
        assert (paper, tight, exact) == pytest.approx(expected, abs=0.5 * 10**-digits)


@given(rho=RHOS, delta=DELTAS)
def test_tight_is_the_least_over_all_orders(rho, delta):
    def at(log_excess):
        alpha = 1 + math.exp(log_excess)
        rest = math.log(1 / delta) + (alpha - 1) * math.log1p(-1 / alpha) - math.log(alpha)
        return alpha * rho + rest / (alpha - 1)

    grid = np.linspace(-12, 28, 161)
    start = grid[np.argmin([at(point) for point in grid])]
    found = minimize_scalar(at, bounds=(start - 0.5, start + 0.5), method="bounded", options={"xatol": 1e-9})
    assert zcdp.epsilon(rho, delta, "tight") == pytest.approx(max(found.fun, 0), rel=1e-7, abs=1e-9)


@given(rho=RHOS, delta=DELTAS)
def test_conversions_are_ordered_and_true_of_a_gaussian_mechanism(rho, delta):
    tight = zcdp.epsilon(rho, delta, "tight")
    assert gaussian.epsilon(delta, math.sqrt(2 * rho)) <= tight * (1 + 1e-9) + 1e-12
    assert tight <= zcdp.epsilon(rho, delta)


def test_tight_at_the_ends():
    ends = zcdp.epsilon(np.array([0.0, 1e-300, 1e-12, 1e12, 1e300]), 1e-5, "tight")
    assert (ends[:3] == 0).all()
    assert ends[3:] == pytest.approx([1e12, 1e300], rel=1e-4)
    assert zcdp.epsilon(1.0, 5e-324, "tight") == pytest.approx(zcdp.epsilon(1.0, 5e-324), rel=0.1)
    assert 0 <= zcdp.epsilon(1e-3, 1 - 2**-53, "tight") <= 1e-3


@given(epsilon=st.floats(-12, 4).map(lambda power: 10**power), delta=DELTAS)
def test_rho_is_the_inverse_of_the_paper_s_conversion(epsilon, delta):
    assert zcdp.epsilon(zcdp.rho(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-12)


def test_composition():
    rho = np.array([[0.1, 0.2, 0.4], [1.0, 0.0, 0.5]])
    np.testing.assert_allclose(zcdp.composition(rho), [0.7, 1.5])
    np.testing.assert_allclose(zcdp.composition(rho, axis=0), [1.1, 0.2, 0.9])
    np.testing.assert_allclose(zcdp.parallel_composition(rho), [0.4, 1.0])
    np.testing.assert_allclose(zcdp.parallel_composition(rho, axis=0), [1.0, 0.2, 0.5])


def test_composition_is_that_of_dp_accounting():
    sigmas = np.array([1.5, 2.0, 4.0])
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    for sigma in sigmas:
        accountant.compose(GaussianDpEvent(sigma))
    rho = zcdp.composition(zcdp.gaussian_rho(1.0, sigmas))
    assert gaussian.epsilon(1e-5, math.sqrt(2 * rho)) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)
    assert zcdp.epsilon(rho, 1e-5, "tight") > accountant.get_epsilon(1e-5)


test_bad_arguments = refused(
    (lambda: zcdp.gaussian_rho(-1.0, 1.0), r"sensitivity must be in \[0, inf\), got -1.0$"),
    (lambda: zcdp.gaussian_rho(1.0, 0.0), r"sigma must be in \(0, inf\), got 0.0$"),
    (lambda: zcdp.epsilon(-0.1, 0.1), r"rho must be in \[0, inf\), got -0.1$"),
    (lambda: zcdp.epsilon(0.1, 1.0), r"delta must be in \(0, 1\), got 1.0$"),
    (lambda: unwrap(zcdp.epsilon)(0.1, 0.1, "exact"), "conversion must be one of 'paper', 'tight', got 'exact'$"),
    (lambda: zcdp.rho(math.inf, 0.1), r"epsilon must be in \[0, inf\), got inf$"),
    (lambda: zcdp.rho(1.0, 0.0), r"delta must be in \(0, 1\), got 0.0$"),
    (lambda: zcdp.composition(np.array([-1.0])), r"rho must be in \[0, inf\), got array\(\[-1.\]\)$"),
    (lambda: zcdp.parallel_composition(np.array([math.nan])), r"rho must be in \[0, inf\), got array\(\[nan\]\)$"),
)

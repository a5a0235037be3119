import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy import integrate, stats

from fedjax_priv.theory import gaussian

SENSITIVITIES = (1e-12, 1e-6, 0.03, 0.049, 0.05, 0.06, 0.5, 1, 3, 20, 1000)


def in_60_digits(x, s):
    with mpmath.workdps(60):
        x, s = mpmath.mpf(x), mpmath.mpf(s)
        return mpmath.ncdf(s / 2 - x / s) - mpmath.exp(x) * mpmath.ncdf(-s / 2 - x / s)


@pytest.mark.parametrize("s", SENSITIVITIES)
def test_delta_is_that_of_many_digits_far_into_the_tail(s):
    z = np.array([0.0, 1e-3, 0.5, 1, 5, 20, 30])
    x = np.concatenate([s * z, s * (s / 2 + z), -s * z, -s * (s / 2 + z)])
    expected = [float(in_60_digits(value, s)) for value in x]
    np.testing.assert_allclose(gaussian.delta(x, s), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(("x", "s"), [(0.0, 0.5), (0.7, 0.5), (-0.7, 0.5), (3.0, 2.0), (-3.0, 2.0)])
def test_delta_is_the_hockey_stick_divergence_of_two_normals(x, s):
    """The integral of (N(s, 1) - e^x N(0, 1))^+, which is positive above z = x/s + s/2."""
    excess = lambda z: stats.norm.pdf(z - s) - math.exp(x) * stats.norm.pdf(z)
    expected, _ = integrate.quad(excess, x / s + s / 2, np.inf)
    assert gaussian.delta(x, s) == pytest.approx(expected, rel=1e-9)


def test_delta_at_the_ends():
    x = np.array([0, 1, -1, np.inf, -np.inf])
    np.testing.assert_allclose(gaussian.delta(x, 0.0), [0, 0, -math.expm1(-1), 0, 1])
    np.testing.assert_allclose(gaussian.delta(x, np.inf), 1)
    np.testing.assert_allclose(gaussian.delta(x[3:], 1.0), [0, 1])
    assert isinstance(gaussian.delta(0.3, 1), float)
    assert gaussian.delta(0.0, 5e-324) < 1e-300 and gaussian.delta(1.0, 1e300) == 1


@given(log_s=st.floats(-8, 3), log_delta=st.floats(-300, -0.01))
def test_epsilon_is_the_inverse(log_s, log_delta):
    s, target = 10**log_s, 10**log_delta
    eps = gaussian.epsilon(target, s)
    if eps == 0:
        assert gaussian.delta(0.0, s) <= target
    else:
        assert gaussian.delta(eps, s) == pytest.approx(target, rel=1e-10)


def test_epsilon_at_the_ends():
    found = gaussian.epsilon(np.array([0, 0.1, 1]), np.array([[0.0], [np.inf]]))
    np.testing.assert_array_equal(found, [[0, 0, 0], [np.inf, np.inf, 0]])
    assert gaussian.epsilon(0.0, 1.0) == math.inf
    assert isinstance(gaussian.epsilon(1e-5, 1.0), float)


def test_classical_epsilon_holds_until_about_8():
    assert gaussian.classical_epsilon(1e-5, 2.0) == pytest.approx(2 * math.sqrt(2 * math.log(125_000)))
    for target, last in ((1e-5, 8.4), (1e-4, 8.0)):
        s = last / gaussian.classical_epsilon(target, 1.0)
        assert gaussian.epsilon(target, 0.98 * s) < 0.98 * last
        assert gaussian.epsilon(target, 1.02 * s) > 1.02 * last


test_bad_arguments = refused(
    (lambda: gaussian.delta(math.nan, 1.0), r"epsilon must be in \[-inf, inf\], got nan"),
    (lambda: gaussian.delta(1.0, -1.0), r"sensitivity must be in \[0, inf\], got -1.0"),
    (lambda: gaussian.epsilon(1.1, 1.0), r"delta must be in \[0, 1\], got 1.1"),
    (lambda: gaussian.epsilon(0.1, math.nan), r"sensitivity must be in \[0, inf\], got nan"),
    (lambda: gaussian.classical_epsilon(0.0, 1.0), r"delta must be in \(0, 1\], got 0.0"),
)

"""One shift of integer noise: printed figures, and that no proved one is below."""

import numpy as np
import pytest
from refusals import refused
from scipy.special import gammaln, logsumexp

from fedjax_priv.theory import gaussian, integer_shift, skellam

DELTA = 1e-5


@pytest.mark.parametrize(
    ("variance", "shift", "printed"), [(100, [10], 4.2696), (25, [5], 4.0229), (400, [20], 4.3494)]
)
def test_skellam_in_one_coordinate(variance, shift, printed):
    assert integer_shift.skellam_epsilon(DELTA, shift, variance) == pytest.approx(printed, abs=2e-4)


@pytest.mark.parametrize(("variance", "least", "most"), [(100, 4.3751, 4.3772), (25, 4.359, 4.362)])
def test_skellam_in_many_coordinates(variance, least, most):
    """Between losses rounded down and up to 2e-5 and 1e-4; proofs hold for every shift, so they are above."""
    found = integer_shift.skellam_epsilon(DELTA, [1] * variance, variance)
    assert least < found < most
    assert found < skellam.epsilon(skellam.rdp(variance**0.5, 256, variance), DELTA)


def test_the_widest_skellam_noise_is_nearly_gaussian():
    """Of more variance, I_0 is NaN in SciPy, and eps was 0."""
    assert integer_shift.skellam_epsilon(DELTA, [2**14], 2.0**28) == pytest.approx(
        gaussian.epsilon(DELTA, 1.0), rel=1e-3
    )


def test_discrete_gaussian():
    found = integer_shift.discrete_gaussian_epsilon(DELTA, [10], 10.0)
    assert found == pytest.approx(4.3777, abs=2e-4)
    assert found == pytest.approx(gaussian.epsilon(DELTA, 1.0), rel=1e-3)


def _smallest_epsilon(log_masses, shift):
    """At `DELTA`, by bisection on a sum over outcomes around the shifted noise, with losses from the logarithms."""
    outcomes = np.arange(shift - 60, shift + 61)
    moved, plain = log_masses(np.abs(outcomes - shift)), log_masses(np.abs(outcomes))
    low, high = 0.0, 10_000.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        spent = -(np.exp(moved) * np.expm1(np.minimum(middle - (moved - plain), 0))).sum()
        low, high = (middle, high) if spent > DELTA else (low, middle)
    return low


@pytest.mark.parametrize(("size", "sigma"), [(3, 2.0), (30, 1.0), (40, 1.0), (50, 1.0), (100, 2.5)])
def test_discrete_gaussian_is_a_sum_over_outcomes(size, sigma):
    """Some masses are below the least float."""
    powers = lambda k: -((k / sigma) ** 2) / 2
    exact = _smallest_epsilon(lambda k: powers(k) - logsumexp(powers(np.arange(-200, 201))), size)
    found = integer_shift.discrete_gaussian_epsilon(DELTA, [size], sigma)
    assert exact - 2e-3 < found < exact + 1e-6


@pytest.mark.parametrize(("size", "variance"), [(5, 25.0), (60, 1.0), (150, 1.0), (2, 1e-60)])
def test_skellam_is_a_sum_over_outcomes(size, variance):
    """With masses from the power series of the Bessel functions."""
    m = np.arange(300)[:, None]
    terms = lambda k: (2 * m + k) * np.log(variance / 2) - gammaln(m + 1) - gammaln(m + k + 1)
    exact = _smallest_epsilon(lambda k: logsumexp(terms(k), axis=0) - variance, size)
    found = integer_shift.skellam_epsilon(DELTA, [size], variance)
    assert exact - 2e-3 < found < exact + 1e-6


def test_rounds_are_more_coordinates():
    four = integer_shift.skellam_epsilon(DELTA, [3], 100.0, rounds=4)
    assert four == integer_shift.skellam_epsilon(DELTA, [3, -3, 3, 3], 100.0)
    assert four > integer_shift.skellam_epsilon(DELTA, [3, 0, 0, 0], 100.0)
    assert integer_shift.skellam_epsilon(DELTA, [0], 100.0) == 0


test_refused = refused(
    (lambda: integer_shift.skellam_epsilon(DELTA, [], 1.0), r"shift must be integers, \[d\], got"),
    *(
        (lambda bad=bad: integer_shift.skellam_epsilon(DELTA, [1], bad), rf"variance must be in \(0, {2**28}.0\], got")
        for bad in (0.0, 2.0**30, np.inf)
    ),
    (lambda: integer_shift.discrete_gaussian_epsilon(DELTA, [1], 2.0**15), r"sigma must be in \(0, 16384.0\], got"),
    (
        lambda: integer_shift.skellam_epsilon(DELTA, [-(2**40)], 1.0),
        "shift must be integers from -1048576 to 1048576, got",
    ),
    (
        lambda: integer_shift.skellam_epsilon(DELTA, [1, 1], 100.0, 10**5),
        r"rounds must be such that the mean privacy loss is at most 100: .* = 1e\+03, got 100000",
    ),
)

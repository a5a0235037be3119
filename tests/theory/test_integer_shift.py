"""One shift of integer noise: printed figures, and that no proved one is below."""

import pytest
from refusals import refused

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


def test_discrete_gaussian():
    found = integer_shift.discrete_gaussian_epsilon(DELTA, [10], 10.0)
    assert found == pytest.approx(4.3777, abs=2e-4)
    assert found == pytest.approx(gaussian.epsilon(DELTA, 1.0), rel=1e-3)


def test_rounds_are_more_coordinates():
    four = integer_shift.skellam_epsilon(DELTA, [3], 100.0, rounds=4)
    assert four == integer_shift.skellam_epsilon(DELTA, [3, -3, 3, 3], 100.0)
    assert four > integer_shift.skellam_epsilon(DELTA, [3, 0, 0, 0], 100.0)
    assert integer_shift.skellam_epsilon(DELTA, [0], 100.0) == 0


test_refused = refused(
    (lambda: integer_shift.skellam_epsilon(DELTA, [], 1.0), r"shift must be integers, \[d\], got"),
    (lambda: integer_shift.skellam_epsilon(DELTA, [1], 0.0), r"variance must be in \(0, inf\), got 0.0"),
)

"""RiseFL's projections: the figures of the literature, and the check itself in a simulation."""

import numpy as np
import pytest

from fedjax_priv.theory.input_validation import acceptance, largest_damage, threshold


def test_the_quantile_is_that_of_the_published_table():
    assert threshold() == pytest.approx(1701.7373, abs=1e-4)


def test_an_upload_that_is_longer_is_accepted_as_often_as_projections_say():
    """The whole check, 20,000 times in float64: of a chi-square number for each projected vector."""
    rng, k, rejected = np.random.default_rng(0), 20, 0.01
    for factor in (0.9, 1.0, 1.2, 1.5):
        u = rng.normal(size=8)
        u *= factor / np.linalg.norm(u)
        passed = ((rng.normal(size=(20_000, k, 8)) @ u) ** 2).sum(1) <= threshold(k, rejected)
        assert passed.mean() == pytest.approx(acceptance(factor, k, rejected), abs=0.015)
    assert acceptance(1.0, k, rejected) == pytest.approx(1 - rejected)


def test_a_bound_buys_about_a_third_more():
    np.testing.assert_allclose(acceptance(np.array([1.2, 1.3, 1.4])), [0.99994, 0.5674, 0.00106], rtol=5e-3)
    assert acceptance(1.8032) == pytest.approx(2.0**-128, rel=1.1)
    assert largest_damage() == pytest.approx(1.2278, abs=1e-4)
    every = np.linspace(1, 2, 2001)
    assert largest_damage() == pytest.approx((every * acceptance(every)).max(), abs=1e-5)


@pytest.mark.parametrize(("projections", "rejected"), [(1000, 0.5), (10, 0.5), (100, 0.2), (1000, 0.05), (2, 1e-9)])
def test_the_best_factor_may_be_short_or_long(projections, rejected):
    """Where honest clients are rejected now and then, a shorter upload gets more through."""
    every = np.geomspace(0.05, 50, 40_001)
    most = (every * acceptance(every, projections, rejected)).max()
    assert largest_damage(projections, rejected) == pytest.approx(most, rel=1e-6)


def test_one_projection_is_passed_best_by_the_longest_upload():
    """It is hit with probability about sqrt(2 gamma / pi) / c."""
    assert largest_damage(1) == pytest.approx(1e4 * acceptance(1e4, 1), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: acceptance(0.0), "factor"), (lambda: threshold(0), "projections"),
        (lambda: threshold(10, 1.0), "honest_rejected"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(call, name):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        call()

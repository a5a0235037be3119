"""Trade-off curves against printed values and the closed form of the Gaussian mechanism."""

import numpy as np
import pytest
from refusals import refused

from fedjax_priv.theory import gaussian, trade_off

ALARMS = np.array([0.01, 0.05, 0.3])
PRINTED = [0.90764, 0.74049, 0.31718]


def profile(eps):
    return gaussian.delta(eps, 1.0)


def test_a_gaussian_mechanism():
    np.testing.assert_allclose(trade_off.gaussian(ALARMS, 1.0), PRINTED, atol=5e-6)
    np.testing.assert_allclose(trade_off.from_profiles(ALARMS, profile, profile), PRINTED, atol=1e-5)


def test_never_above_the_curve():
    many = np.linspace(0, 1, 201)
    found = trade_off.from_profiles(many, profile, profile)
    known = trade_off.gaussian(many, 1.0)
    assert (found <= known + 1e-12).all() and (known - found).max() < 1e-5


@pytest.mark.parametrize("mu", [38.0, 60.0, 100.0])
def test_inputs_that_are_far_apart(mu):
    """Eps is in the thousands there, and e^eps infinite."""
    far = lambda eps: gaussian.delta(eps, mu)
    np.testing.assert_allclose(trade_off.from_profiles(np.array([0.0, 0.5]), far, far), [1.0, 0.0], atol=1e-6)


def test_no_privacy_and_perfect_privacy():
    nothing = lambda eps: np.zeros(np.shape(eps))
    np.testing.assert_allclose(trade_off.from_profiles(ALARMS, nothing, nothing), 1 - ALARMS)
    lost = lambda eps: np.full(np.shape(eps), 0.25)  # of the outputs are the input itself
    assert trade_off.from_profiles(0.1, lost, lost) == pytest.approx(0.65)


test_refused = refused(
    (lambda: trade_off.gaussian(1.5, 1.0), r"alarms must be in \[0, 1\], got 1.5"),
    (lambda: trade_off.gaussian(0.5, -1.0), r"mu must be in \[0, inf\), got -1.0"),
)

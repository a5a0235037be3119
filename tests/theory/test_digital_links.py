"""Rates, outages and distortions: published and derived values, and simulations of fading."""

import mpmath
import numpy as np
import pytest
from refusals import refused
from scipy.optimize import brentq

from fedjax_priv.theory import digital_links as theory

CASE = dict(users=20, energy=10.0 * 7850, noise=1.0)


def test_the_best_fixed_rate_of_rayleigh_fading():
    """Lambert's function, against a search; the values at an SNR of 10."""
    best = theory.best_fixed_rate(10.0)
    rates = np.linspace(0.01, 4, 4001)
    through = rates * (1 - theory.outage(rates, 10.0))
    assert best == pytest.approx(1.259132, abs=1e-6) == pytest.approx(rates[through.argmax()], abs=2e-3)
    assert theory.outage(best, 10.0) == pytest.approx(0.376803, abs=1e-6)
    assert best * (1 - theory.outage(best, 10.0)) == pytest.approx(0.784688, abs=1e-6)


@pytest.mark.parametrize("snr", [0.5, 10.0])
def test_fading_that_is_drawn_has_these_rates(snr):
    """A million gains; the ergodic rate is above the best fixed one, and below that of the mean gain."""
    gain = np.sqrt(np.random.default_rng(0).exponential(size=10**6))
    drawn = theory.rate(snr, gain)
    assert theory.ergodic_rate(snr) == pytest.approx(drawn.mean(), abs=4 * drawn.std() / 1e3)
    for fixed in (0.2, 1.0):
        lost = (drawn < fixed).mean()
        assert theory.outage(fixed, snr) == pytest.approx(lost, abs=4 * np.sqrt(lost * (1 - lost)) / 1e3)
    best = theory.best_fixed_rate(snr)
    assert best * (1 - theory.outage(best, snr)) < theory.ergodic_rate(snr) < theory.rate(snr)


@pytest.mark.parametrize("snr", [1e-9, 1e-3, 0.0099, 0.0101, 0.2, 1.0, 1e3, 1e9])
def test_the_ergodic_rate_at_any_snr(snr):
    """Against 30 digits, and where noise is far above the signal `snr / (2 ln 2)`."""
    with mpmath.workdps(30):
        x = 1 / mpmath.mpf(snr)
        exact = float(mpmath.exp(x) * mpmath.e1(x) / mpmath.log(4))
    assert theory.ergodic_rate(snr) == pytest.approx(exact, rel=1e-13)
    assert theory.ergodic_rate(snr) < snr / np.log(4)


@pytest.mark.parametrize("snr", [1e-300, 1e-15, 1e-6, 1.0, 1e9])
def test_the_rate_of_any_snr(snr):
    with mpmath.workdps(30):
        exact = float(mpmath.log1p(mpmath.mpf(snr) / 4) / mpmath.log(4))
    np.testing.assert_allclose(theory.rate(snr, 0.5), exact, rtol=1e-14)


def test_analog_and_digital_means_of_the_same_uses_and_energy():
    """r = 20, E = 10 d N0: 0.191276 bits a coordinate; digital is level only with 91.384 times as many uses."""
    d = 7850
    assert theory.bits_of_a_turn(d, **CASE) / d == pytest.approx(0.191276, abs=1e-6)
    assert theory.digital_distortion(d, d, **CASE) == pytest.approx(0.0383540, abs=1e-7)
    assert theory.analog_distortion(d, **CASE) == pytest.approx(0.00025, rel=1e-12)
    gap = lambda times: theory.digital_distortion(d, times * d, **CASE) - theory.analog_distortion(d, **CASE)
    assert brentq(gap, 1.0, 1e3) == pytest.approx(91.384, abs=1e-3)


def test_of_a_single_user_both_are_alike():
    """1 / (1 + snr) against 1 / snr."""
    one = CASE | {"users": 1}
    assert theory.digital_distortion(7850, 7850, **one) == pytest.approx(1 / 11)
    assert theory.analog_distortion(7850, **one) == pytest.approx(1 / 10)


def test_more_users_share_the_uses_of_digital_links_and_add_up_on_the_air():
    bits = theory.bits_of_a_turn(1000, np.array([1, 10, 100]), energy=1e4, noise=1.0)
    assert (np.diff(bits) < 0).all() and (np.diff(bits * [1, 10, 100]) > 0).all()
    analog = theory.analog_distortion(1000, np.array([1, 10]), energy=1e4, noise=1.0)
    assert analog[0] / analog[1] == pytest.approx(100)


test_out_of_range = refused(
    (lambda: theory.rate(-1.0), "snr"),
    (lambda: theory.rate(1.0, gain=-1.0), "gain"),
    (lambda: theory.outage(-0.1, 1.0), "fixed_rate"),
    (lambda: theory.outage(0.1, 0.0), "snr"),
    (lambda: theory.best_fixed_rate(0.0), "snr"),
    (lambda: theory.ergodic_rate(0.0), "snr"),
    (lambda: theory.bits_of_a_turn(0, 1, 1.0, 1.0), "uses"),
    (lambda: theory.bits_of_a_turn(1, 0, 1.0, 1.0), "users"),
    (lambda: theory.bits_of_a_turn(1, 1, -1.0, 1.0), "energy"),
    (lambda: theory.bits_of_a_turn(1, 1, 1.0, 0.0), "noise"),
    (lambda: theory.digital_distortion(0, 1, 1, 1.0, 1.0), "size"),
    (lambda: theory.analog_distortion(1, 1, 0.0, 1.0), "energy"),
)

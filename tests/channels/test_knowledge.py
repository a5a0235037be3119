"""What clients know of their gains: coefficients against their closed forms, and errors that others have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.channels import constant, estimated, rayleigh, rayleigh_antennas, recorded, rician, turned
from fedjax_priv.channels.knowledge import known_gains
from fedjax_priv.theory.wireless import estimated_coefficient, turned_coefficient
from helpers import refuses

KEY, USERS, V, G = jax.random.key(3), 100_000, 0.1, 0.2


def drawn(fading, n=USERS):
    """`(known gains, coefficients)` of a round, complex, in float64."""
    gain, u, _ = jax.jit(lambda key: known_gains(fading, key, fading.init(KEY, n), jnp.int32(0), n))(KEY)
    return np.asarray(gain, np.float64), np.asarray(u, np.float64) @ [1, 1j]


def misses(sample, expected):
    """Standard errors between a mean and what it should be."""
    return abs(sample.mean() - expected) / (sample.std() / np.sqrt(sample.size))


@pytest.mark.parametrize("estimator", ["mmse", "least squares"])
def test_estimates_have_the_moments_of_the_table(estimator):
    """Within 3 standard errors; the other estimate, and gains that are known, are far off."""
    fading = estimated(rayleigh(), pilot_energy=14.0, receiver_noise=0.7, estimator=estimator)
    assert fading.knowledge.error == pytest.approx(V)
    known, u = drawn(fading)
    sends = known**2 >= G
    u = u[sends]
    of = estimated_coefficient(V, G, estimator)
    each = np.square(u.real - of.mean), np.square(u.imag)
    pairs = [(u.real, of.mean), (u.imag, 0.0), *((part, of.variance / 2) for part in each), (sends, of.sends),
             (np.where(sends, 1 / known**2, 0), of.energy)]  # fmt: skip
    assert max(misses(np.asarray(sample), value) for sample, value in pairs) < 3
    assert fading.knowledge.mean == pytest.approx(of.mean)
    other = estimated_coefficient(V, G, "least squares" if estimator == "mmse" else "mmse")
    assert misses(each[0], other.variance / 2) > 5 and misses(sends, other.sends) > 5
    assert misses(sends, np.exp(-G)) > 5  # of gains that are known


def test_phases_that_err_have_the_moments_of_the_table():
    mean, real, imaginary = turned_coefficient(0.8)
    fading = turned(rician(), deviation=0.8)
    known, u = drawn(fading)
    pairs = [(u.real, mean), (u.imag, 0.0), (np.square(u.real - mean), real), (np.square(u.imag), imaginary)]
    assert max(misses(*pair) for pair in pairs) < 3
    assert misses(np.square(u.imag), real) > 10 and misses(u.real, 1.0) > 10
    np.testing.assert_allclose(abs(u), 1, rtol=1e-6)
    np.testing.assert_allclose(known, drawn_gains(rician()), rtol=1e-4)
    assert float(fading.knowledge.mean) == pytest.approx(mean)


def drawn_gains(fading):
    return jax.jit(lambda key: known_gains(fading, key, fading.init(KEY, USERS), jnp.int32(0), USERS)[0])(KEY)


def test_the_true_gain_is_what_is_known_times_the_coefficient():
    true = np.array([0.3, 1.0, 2.5])
    known, u = drawn(estimated(recorded(true[None]), pilot_energy=1.0, mean=1.0), 3)
    np.testing.assert_allclose(known * abs(u), true, rtol=1e-5)
    assert (abs(known - true) > 1e-3).all()
    fine, u = drawn(estimated(recorded(true[None]), pilot_energy=1e8, mean=1.0), 3)
    np.testing.assert_allclose(fine, true, rtol=1e-3)
    np.testing.assert_allclose(u, 1, atol=2e-3)


def test_errors_of_a_client_are_its_own_and_new_in_each_round():
    of = lambda key, n: known_gains(turned(constant(), deviation=1.0), key, (), jnp.int32(0), n)[1]
    few, many, later = of(KEY, 3), of(KEY, 5), of(jax.random.key(4), 3)
    np.testing.assert_array_equal(few, many[:3])
    assert (abs(few - later) > 1e-3).all() and len(np.unique(np.asarray(many)[:, 0])) == 5


@pytest.mark.parametrize("fading", [rayleigh(), rician(correlation=0.5)])
def test_errors_tell_nothing_of_the_gains_of_the_next_round(fading):
    """Nor of this one; the next round's are the state that is left."""
    unsure = estimated(fading, pilot_energy=1.0, estimator="least squares", mean=1.0)
    now = fading.init(jax.random.key(1), USERS)
    known, u, later = known_gains(unsure, KEY, now, jnp.int32(0), USERS)
    known, (real, imaginary) = np.asarray(known, float), np.asarray(u, float).T
    gain = known * np.hypot(real, imaginary)
    error = gain / (real + 1j * imaginary) - gain
    for scattered in (*np.asarray(now).T, *np.asarray(later).T):
        for part in (error.real, error.imag):
            assert abs(np.corrcoef(part, scattered)[0, 1]) < 5 / np.sqrt(USERS)


def test_which_gains_are_known_to_be_rayleigh():
    of = lambda fading: estimated(fading, pilot_energy=1.0, mean=0.9).knowledge.rayleigh
    assert of(rayleigh()) and not of(rayleigh(correlation=0.5)) and not of(rician())
    assert estimated(rayleigh(correlation=0.5), pilot_energy=2.0).knowledge.mean == 1  # each gain has that law still
    assert estimated(rayleigh(), pilot_energy=2.0, mean=0.9).knowledge.mean == 0.9  # as of gains that are cut off


test_bad_arguments = refuses(
    lambda make: make(),
    *(
        (
            lambda name=name: estimated(rayleigh()._replace(**{name: "no"}), pilot_energy=9.0),
            f"{name} must be one of True, False, got 'no'",
        )
        for name in ("rayleigh", "anew")
    ),
    (lambda: estimated(rayleigh(), pilot_energy=0.0), "pilot_energy must be a finite number > 0, got 0.0"),
    (
        lambda: estimated(rayleigh(), pilot_energy=1.0, receiver_noise=-1.0),
        "receiver_noise must be a finite number > 0, got -1.0",
    ),
    (
        lambda: estimated(rician(), pilot_energy=1.0),
        r"mean must be given for gains other than channels.rayleigh\(\), .* got None",
    ),
    (lambda: estimated(rician(), pilot_energy=1.0, mean=0.0), "mean must be a finite number > 0, got 0.0"),
    (lambda: turned(rayleigh(), deviation=-0.1), "deviation must be a finite number >= 0, got -0.1"),
    (
        lambda: turned(estimated(rayleigh(), pilot_energy=1.0), deviation=0.1),
        "fading must be of gains that are fully known, got Pilots",
    ),
)


@pytest.mark.parametrize("zero", [0, 0.0, np.float64(0), jnp.float32(0)])
def test_gains_without_correlation_are_drawn_anew_whatever_the_type_of_zero(zero):
    assert rayleigh(correlation=zero).anew is True
    assert rayleigh_antennas(correlation=zero).anew is True


def test_a_correlation_that_is_traced_is_not_known_to_be_zero():
    seen = []
    jax.jit(lambda rho: seen.append((rayleigh(correlation=rho).anew, rayleigh_antennas(correlation=rho).anew)))(0.0)
    assert seen == [(False, False)]

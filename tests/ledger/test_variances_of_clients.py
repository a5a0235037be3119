"""Variances of noise over the air that are given for each client, and what is left of a signal under "signal"."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv import systems
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.channels import constant, turned
from fedjax_priv.ledger import ledger, planned, worst

N, D, L, N0, C, DELTA, ROUNDS, KEY = 3, 8, 0.7, 0.6, 0.9, 1e-5, 2, jax.random.key(0)
SYSTEMS = {
    "known gains": (systems.wireless, {"fading": constant()}),
    "orthogonal links": (systems.wireless, {"fading": constant(), "access": "orthogonal"}),
    "turned phases": (systems.wireless, {"fading": turned(constant(), deviation=0.4)}),
    "two coordinates": (systems.wireless, {"fading": turned(constant(), deviation=0.4), "coordinates_per_use": 2}),
    "antennas": (systems.blind_wireless, {"antennas": 2}),
    "antennas, two coordinates": (systems.blind_wireless, {"antennas": 2, "coordinates_per_use": 2}),
}
UNEQUAL = np.array([0.2, 0.0, 0.5])


def system_of(name, **how):
    make, usual = SYSTEMS[name]
    return make(sending(jnp.zeros((N, D))), clip=L, receiver_noise=N0, mesh=None, **usual, **how)


def plan_of(system):
    return planned(system, KEY, jnp.zeros(D), no_samples(N), rounds=ROUNDS)


@functools.cache
def run_of(name):
    return plan_of(system_of(name, noise_variance=0.1))


def proved(system, run):
    return [entry.proved for entry in ledger(system, run, no_samples(N), delta=DELTA, colluding=1)]


def each(figure):
    return np.asarray(figure.epsilon, float)


def arrives(run, name):
    """`[T, K, ...]`: where a unit of a client's update arrives, in real numbers, on the first coordinate of a use."""
    if name == "antennas":
        return run.antenna_gains.values.astype(float)
    if name == "antennas, two coordinates":
        real, imaginary = np.split(run.antenna_gains.values.astype(float), 2, axis=2)
        return real + 1j * imaginary
    if name in ("turned phases", "two coordinates"):
        u = np.stack([run.coefficient_real.values, run.coefficient_imaginary.values], -1).astype(float)
        return u if name == "turned phases" else (u[..., :1] + 1j * u[..., 1:])
    return np.ones((ROUNDS, N, 1))


def squares(where, variance, honest=N, alone=False, shift=2 * L):
    """Of each client, `sum_t m^T Sigma^-1 m`: how far its update moves, whitened by all noise that is not known."""
    total = np.zeros(N)
    for there in where:
        for k, mine in enumerate(there):
            noisy = [j for j in range(N) if (j == k if alone else j < honest or j == k)]
            outer = sum(variance[j] * np.outer(there[j], there[j].conj()) for j in noisy)
            total[k] += (shift**2 * mine.conj() @ np.linalg.solve(N0 * np.eye(len(mine)) + outer, mine)).real
    return total


def told(eps, square):
    """delta of Gaussian noise at eps (Balle and Wang 2018, Theorem 8)."""
    s = np.sqrt(square)
    return stats.norm.cdf(s / 2 - eps / s) - np.exp(eps) * stats.norm.cdf(-s / 2 - eps / s)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("name", SYSTEMS)
def test_equal_variances_are_one_variance(name, noise):
    ones, same = (proved(system_of(name, noise_variance=v), run_of(name)) for v in (noise, np.full(N, noise)))
    for one, other in zip(ones, same, strict=True):
        assert (worst(one) or 0) > 0
        np.testing.assert_array_equal(one.epsilon, other.epsilon)


@pytest.mark.parametrize("name", SYSTEMS)
def test_variances_of_public_senders_add_up(name):
    """Against the server alone, and with the last client, whose noise it knows; exact for every client."""
    run = run_of(name)
    server, coalition = proved(system_of(name, noise_variance=UNEQUAL), run)
    where, alone = arrives(run, name), name == "orthogonal links"
    np.testing.assert_allclose(told(each(server), squares(where, UNEQUAL, alone=alone)), DELTA, rtol=1e-3)
    honest = told(each(coalition), squares(where, UNEQUAL, N - 1, alone)[: each(coalition).size])
    np.testing.assert_allclose(honest, DELTA, rtol=1e-3)


def test_variances_that_differ_have_no_figure_where_coins_decide():
    for name in ("known gains", "orthogonal links"):
        run = run_of(name).assign(join_probability=0.5 * run_of(name).join_probability)
        for one in proved(system_of(name, noise_variance=UNEQUAL), run):
            assert one.epsilon is None and "noise variances differ" in one.why


def limited(name, power, variance, control):
    return system_of(
        name, snr_db=10 * np.log10(power / D / N0), noise_variance=variance, level=C, power_control=control
    )


@pytest.mark.parametrize("name", ["known gains", "turned phases"])
def test_under_signal_less_arrives_of_an_update_and_all_of_its_noise(name):
    """a_k = min(1, sqrt(h^2 P_k / c^2 - d sigma_k^2) / L), and b_k = 1; the noise of client 2 takes all its power."""
    variance, power = np.array([0.4, 0.5, 1.4]), np.array([2.8, 4.3, 9.0])
    system = limited(name, power, variance, "signal")
    run, left = plan_of(system), power / C**2 - D * variance
    assert (run.join_probability.values == (left > 0)).all() and (left > 0).tolist() == [True, True, False]
    a = np.minimum(1, np.sqrt(np.maximum(left, 0)) / L)
    assert 0.5 < a[0] < a[1] == 1
    for one, honest in zip(proved(system, run), (N, N - 1), strict=True):
        square = squares(C * arrives(run, name), variance * (left > 0), honest) * a**2
        np.testing.assert_allclose(told(each(one)[:2], square[:2]), DELTA, rtol=1e-3)
        assert each(one)[2:].sum() == 0


@pytest.mark.parametrize("control", ["gradient", "bound", "signal"])
def test_power_shortens_what_arrives_with_phases_that_err_where_users_add_no_noise(control):
    power, run = np.array([0.1, 0.2, 9.0]), run_of("turned phases")
    a = np.minimum(1, np.sqrt(power) / C / L)
    found = each(proved(limited("turned phases", power, 0.0, control), run)[0])
    square = squares(C * arrives(run, "turned phases"), np.zeros(N)) * a**2
    np.testing.assert_allclose(told(found, square), DELTA, rtol=1e-3)
    assert a[0] < a[1] < a[2] == 1


def test_no_figure_where_a_gain_that_power_asks_for_is_missing():
    run = run_of("turned phases").copy(deep=True)
    run.gain[1, 0] = np.nan
    for one in proved(limited("turned phases", np.full(N, 9.0), 0.1, "signal"), run):
        assert one.epsilon is None and "a gain is not finite" in one.why


def test_coins_under_signal_have_the_figure_of_the_largest_update_that_arrives():
    """Of clients that are all as weak, as if each update were as short: a lower clip and no limit."""
    run = run_of("known gains").assign(join_probability=0.5 * run_of("known gains").join_probability)
    a = np.sqrt(2.8 / C**2 - D * 0.4) / L
    (found, *_), (same, *_) = (
        proved(one, run)
        for one in (
            limited("known gains", np.full(N, 2.8), 0.4, "signal"),
            system_of("known gains", noise_variance=0.4 / a**2, level=a * C),
        )
    )
    assert a < 0.75 and worst(found) == pytest.approx(worst(same), rel=1e-4)

"""Coefficients of users that invert an estimate: against draws, printed numbers, and integrals over the received."""

import numpy as np
import pytest
from refusals import refused

from fedjax_priv.theory import gaussian
from fedjax_priv.theory import wireless as theory
from fedjax_priv.theory.wireless import estimated_channel

V, G, DRAWS = 0.1, 0.2, 400_000


def cn(rng, size, variance=1.0):
    return np.sqrt(variance / 2) * (rng.normal(size=size) + 1j * rng.normal(size=size))


def drawn(estimator, v=V, g=G):
    """`(u of those that send, share of those, energies)`."""
    rng = np.random.default_rng(7)
    h = cn(rng, DRAWS)
    known = (h + cn(rng, DRAWS, v)) / (1 + v if estimator == "mmse" else 1)
    sends = np.abs(known) ** 2 >= g
    return h[sends] / known[sends], sends, np.where(sends, 1 / np.abs(known) ** 2, 0)


def misses(sample, expected):
    """Standard errors between a mean and what it should be."""
    return abs(sample.mean() - expected) / (sample.std() / np.sqrt(sample.size))


@pytest.mark.parametrize("estimator", ["mmse", "least squares"])
def test_moments_of_coefficients(estimator):
    """Within 3 standard errors; those of the other estimate, or of perfect knowledge, are far off."""
    u, sends, energy = drawn(estimator)
    found = theory.estimated_coefficient(V, G, estimator)
    square = np.abs(u - found.mean) ** 2
    pairs = [(u.real, found.mean), (u.imag, 0.0), (square, found.variance), (energy, found.energy)]
    assert max(misses(*pair) for pair in [*pairs, (1.0 * sends, found.sends)]) < 3
    assert misses((u.real - found.mean) ** 2, found.variance / 2) < 3
    other = theory.estimated_coefficient(V, G, "mmse" if estimator == "least squares" else "least squares")
    assert min(misses(square, other.variance), misses(1.0 * sends, other.sends), misses(energy, other.energy)) > 10
    assert misses(1.0 * sends, np.exp(-G)) > 5


@pytest.mark.parametrize("least", [0.0, 0.9])
@pytest.mark.parametrize("estimator", ["mmse", "least squares"])
def test_the_mean_for_gains_of_any_law(estimator, least):
    """Against draws within 4 standard errors, for two gains as likely; that of Rayleigh gains is far off."""
    rng = np.random.default_rng(8)
    h = rng.choice([0.6, 1.3], DRAWS)
    z = h + cn(rng, DRAWS, V)
    known = z / (1 + V if estimator == "mmse" else 1)
    sends = np.abs(known) ** 2 >= least
    u = (h / known)[sends].real
    assert sends.mean() > 0.4 and (sends.all() or least)
    found = theory.estimated_mean(np.array([0.6, 1.3]), V, least, estimator)
    assert misses(u, found) < 4
    assert misses(u, theory.estimated_coefficient(V, 1.0, estimator).mean) > 10
    assert misses(u, theory.estimated_mean(np.array([0.6, 1.3]), V, 0.9 - least, estimator)) > 10


def test_the_mean_for_any_gains_where_it_has_a_closed_form():
    h = np.array([0.05, 0.3, 1.0, 40.0])
    for v in (1e-4, V, 3.0):
        each = [theory.estimated_mean(np.array([one]), v, 0.0, "least squares") for one in h]
        np.testing.assert_allclose(each, -np.expm1(-(h**2) / v), rtol=1e-10)
    rayleigh = np.sqrt(-np.log1p(-(np.arange(20_000) + 0.5) / 20_000))  # quantiles
    for least in (0.0, G, 2.0):
        assert theory.estimated_mean(rayleigh, V, least) == pytest.approx(1, abs=1e-4)
        assert theory.estimated_mean(rayleigh, V, least, "least squares") == pytest.approx(1 / (1 + V), abs=1e-4)


def test_moments_as_printed():
    squares, mmse = (theory.estimated_coefficient(V, G, of) for of in ("least squares", "mmse"))
    np.testing.assert_allclose(squares[:3], [0.909091, 0.129000, 0.833753], atol=1e-6)
    np.testing.assert_allclose(mmse[:3], [1, 0.142723, 0.802519], atol=1e-6)
    same = theory.estimated_coefficient(V, G / (1 + V) ** 2)  # least squares, scaled
    np.testing.assert_allclose(squares.variance, same.variance / (1 + V) ** 2)


@pytest.mark.parametrize(("v", "g"), [(5000.0, 0.2), (0.1, 2000.0)])
def test_moments_where_hardly_anybody_sends(v, g):
    """E |u - 1|^2 = v' E [1 / y] over y = |hat h|^2, exponential from g on, v' = v / (1 + v)."""
    t = np.linspace(0, 50, 500_001)
    expected = v / (1 + v) * np.trapezoid(np.exp(-t) / (g + t / (1 + v)), t)
    assert theory.estimated_coefficient(v, g).variance == pytest.approx(expected, rel=1e-6)


def test_phases_that_err():
    f = 0.8
    phase = np.random.default_rng(3).normal(0, f, DRAWS)
    mean, real, imaginary = theory.turned_coefficient(f)
    assert misses(np.cos(phase), mean) < 3
    assert misses((np.cos(phase) - mean) ** 2, real) < 3 and misses(np.sin(phase) ** 2, imaginary) < 3
    assert misses(np.sin(phase) ** 2, real) > 10


def test_privacy_is_of_the_length_of_the_coefficient():
    """By the mean over draws of |u|; its real part alone would say too little, as perfect knowledge does."""
    u, *_ = drawn("mmse")
    s, eps = 0.5, 1.0
    found = float(theory.estimated_channel_delta(eps, s, error=V, threshold=G))
    assert found == pytest.approx(0.013740, abs=1e-6) and gaussian.delta(eps, s) == pytest.approx(0.006830, abs=1e-6)
    each = np.asarray(gaussian.delta(eps, s * np.abs(u[:100_000])))
    assert misses(each, found) < 3
    projected = np.asarray(gaussian.delta(eps, s * np.abs(u.real[:100_000])))
    assert misses(projected, found) > 5 and projected.mean() < found
    assert theory.estimated_channel_epsilon(found, s, error=V, threshold=G) == pytest.approx(eps, rel=1e-6)
    three = theory.estimated_channel_delta(eps, s, error=V, threshold=G, rounds=3)
    sums = np.sqrt((np.abs(u[:150_000].reshape(-1, 3)) ** 2).sum(1))
    assert misses(np.asarray(gaussian.delta(eps, s * sums)), three) < 4


def summed(eps, s, v, g):
    """E delta_G(eps; s |u|) as a sum over y = |hat h|^2 and the parts of u, complex Gaussian about 1 given y."""
    edges = np.logspace(np.log10(1e-7 * g), 2, 301)
    t, weight = np.sqrt(edges[1:] * edges[:-1]), np.exp(-edges[:-1]) - np.exp(-edges[1:])
    a, wa = np.polynomial.hermite_e.hermegauss(60)
    spread = np.sqrt(v / (1 + v) / (2 * (g + t / (1 + v))))
    length = [np.abs(1 + z * (a[:, None] + 1j * a)) for z in spread]
    each = [np.asarray(gaussian.delta(eps, s * of)) @ wa @ wa / (2 * np.pi) for of in length]
    return np.sum(weight * each)


@pytest.mark.parametrize(
    ("v", "g", "eps"),
    [(0.1, 0.01, 5.0), (0.1, 0.001, 5.0), (0.001, 0.001, 3.0), (1e-6, 0.2, 1.0), (1e-7, 0.2, 1.0), (5.0, 0.2, 1.0)],
)
def test_privacy_of_weak_estimates_and_of_small_errors(v, g, eps):
    """Weak estimates, with y near g, have the long |u| that decide; a small error leaves a narrow peak at 1."""
    found = theory.estimated_channel_delta(eps, 0.5, error=v, threshold=g)
    assert found == pytest.approx(summed(eps, 0.5, v, g), rel=2e-3)  # widths of the sum's cells


@pytest.mark.parametrize("g", [0.01, 0.001])
def test_privacy_of_weak_estimates_by_draws(g):
    """Within 4 standard errors of draws of gains and pilots. Draws that spare the weakest 1% say far too little."""
    u, *_ = drawn("mmse", g=g)
    each = np.asarray(gaussian.delta(5.0, 0.5 * np.abs(u)))
    assert misses(each, theory.estimated_channel_delta(5.0, 0.5, error=V, threshold=g)) < 4
    spared, *_ = drawn("mmse", g=g + 0.01)
    assert gaussian.delta(5.0, 0.5 * np.abs(spared)).mean() < 0.5 * each.mean()


@pytest.mark.parametrize("g", [1e-6, 0.01, 0.2, 100.0])
@pytest.mark.parametrize("v", [1e-12, 1e-6, 0.1, 10.0, 1e6])
def test_chances_of_lengths_add_up(v, g):
    """To one, and their mean square is that of the coefficient's moments in closed form."""
    length, chance = estimated_channel._lengths(v, g)
    assert chance.sum() == pytest.approx(1, abs=1e-12)
    expected = 1 + theory.estimated_coefficient(v, g).variance
    assert (chance * length**2).sum() == pytest.approx(expected, rel=1e-10)


def test_noise_of_users_lies_along_their_coefficients():
    setting = theory.Round(3, 1.0, 0.6, 0.5, 0.2)
    u = np.array([1.1 - 0.3j, 0.8 + 0.5j, 1.2 + 0.1j])
    s = theory.known_coefficients_sensitivity(setting, u, level=0.9)
    assert s[0] == pytest.approx(1.164729, abs=1e-6)
    assert gaussian.delta(1.0, s[0]) == pytest.approx(0.187863, abs=1e-6)
    scalar = 2 * 0.9 * 0.6 * abs(u[0]) / np.sqrt(0.2 + 0.81 * 0.5 * (np.abs(u) ** 2).sum())
    assert gaussian.delta(1.0, scalar) == pytest.approx(0.110252, abs=1e-6)
    rng, size = np.random.default_rng(0), 400_000  # the best test, on what the server gets
    noise = np.sqrt(0.2) * rng.normal(size=(size, 2))
    noise += 0.9 * np.sqrt(0.5) * rng.normal(size=(size, 3)) @ np.stack([u.real, u.imag], 1)
    shift = 2 * 0.9 * 0.6 * np.array([u[0].real, u[0].imag])
    best = np.linalg.solve(np.cov(noise.T), shift)
    accept = lambda y: y @ best > shift @ best / 2 + 1.0  # the ratio of the two laws above e
    gap = accept(noise + shift).mean() - np.e * accept(noise).mean()
    assert abs(gap - 0.187863) < 0.004
    straight = theory.known_coefficients_sensitivity(setting, np.ones(3), level=0.9)
    np.testing.assert_allclose(straight, 2 * 0.6 / np.sqrt(3 * 0.5 + 0.2 / 0.81))


def test_perfect_knowledge_is_the_limit():
    near = theory.estimated_channel_delta(1.0, 0.5, error=1e-5, threshold=0.2)
    assert near == pytest.approx(gaussian.delta(1.0, 0.5), rel=2e-3)
    assert near > gaussian.delta(1.0, 0.5)


test_bad_arguments = refused(
    (lambda: theory.estimated_coefficient(0.0, 0.1), r"error must be in \(0, inf\), got 0.0"),
    (lambda: theory.estimated_coefficient(0.1, 0.0), r"threshold must be in \(0, inf\), got 0.0"),
    (lambda: theory.turned_coefficient(-0.1), r"deviation must be in \[0, inf\), got -0.1"),
    (
        lambda: theory.known_coefficients_sensitivity(theory.Round(1, 1.0, 1.0, 0.1), np.ones(1)),
        r"receiver_noise must be in \(0, inf\), got 0.0",
    ),
)

"""Users that know nothing of their channel and are heard by several antennas: against draws, printed numbers, NumPy."""

import numpy as np
import pytest
from refusals import refused

from fedjax_priv.theory import gaussian
from fedjax_priv.theory import wireless as theory

K, M, V, DRAWS = 5, 8, 0.3, 40_000
RNG = np.random.default_rng(11)


def cn(*shape, variance=1.0):
    return np.sqrt(variance / 2) * (RNG.normal(size=shape) + 1j * RNG.normal(size=shape))


def drawn(pilots):
    """`(B [draws, K], S [draws, M], h)`."""
    h = cn(DRAWS, K, M)
    errors = cn(DRAWS, K, M, variance=V).sum(1) if pilots == "individual" else cn(DRAWS, M, variance=V)
    total = h.sum(1) + errors
    return (total.conj()[:, None] * h).mean(2), total, h


def misses(sample, expected):
    """Standard errors between a mean and what it should be."""
    return abs(sample.mean() - expected) / (sample.std() / np.sqrt(sample.size))


@pytest.mark.parametrize("pilots", ["individual", "common"])
def test_moments_of_combined_coefficients(pilots):
    """Within 3 standard errors; K / M, which is without the pseudo-variance, is far off."""
    b, _, _ = drawn(pilots)
    found = theory.combined_coefficients(K, M, error=V, pilots=pilots)
    first, second = b[:, 0] - 1, b[:, 1] - 1
    pairs = [
        (b[:, 0].real, 1.0), (b[:, 0].imag, 0.0), (first.real**2, found.real), (first.imag**2, found.imaginary),
        (first.real * second.real, found.real_covariance), (first.imag * second.imag, found.imaginary_covariance),
        (first.real * second.imag, 0.0),
    ]  # fmt: skip
    assert max(misses(*pair) for pair in pairs) < 3
    half = (found.real + found.imaginary) / 2  # each part of a circular B
    assert min(misses(first.real**2, half), misses(first.imag**2, half)) > 5
    other = theory.combined_coefficients(K, M, error=V, pilots="common" if pilots == "individual" else "individual")
    assert misses(first.real**2, other.real) > 5


def test_printed_moments():
    assert theory.combined_coefficients(5, 8, error=0.3) == (0.46875, 0.34375, 0.0625, -0.0625)
    one = theory.combined_error(7, 1, mean_square=4.0, square_of_mean=2.0, num_params=3)
    assert one == (3.0, 0.0, 0.0)


@pytest.mark.parametrize("pilots", ["individual", "common"])
def test_error_of_the_estimate(pilots):
    """Each cause, against draws of the signals of all antennas."""
    g, n0, sigma2, amplitude = RNG.normal(size=(K, 3)), 0.7, 0.2, 1.3
    b, total, _ = drawn(pilots)
    own = np.sqrt(sigma2) * RNG.normal(size=(DRAWS, K, 3))
    heard = cn(DRAWS, M, 3, variance=2 * n0)
    errors = (
        np.square((b.real - 1) @ g / K).sum(1),
        np.square(np.einsum("tk,tkd->td", b.real, own) / K).sum(1),
        np.square(np.einsum("tm,tmd->td", total.conj(), heard).real / (M * K * amplitude)).sum(1),
    )
    found = theory.combined_error(
        K, M, mean_square=np.square(g).sum(1).mean(), square_of_mean=np.square(g.mean(0)).sum(), num_params=3,
        noise_variance=sigma2, receiver_noise=n0, amplitude=amplitude, error=V, pilots=pilots,
    )  # fmt: skip
    assert max(misses(*pair) for pair in zip(errors, found, strict=True)) < 3


SETTING = theory.Round(num_users=3, participation=1.0, clip=0.6, noise_variance=0.5, receiver_noise=0.2)
U = np.array([1.1 - 0.3j, 0.8 + 0.5j, 1.2 + 0.1j])


def test_one_antenna_is_known_coefficients():
    one = theory.antennas_sensitivity(SETTING, U[:, None], amplitude=0.9)
    np.testing.assert_allclose(one, theory.known_coefficients_sensitivity(SETTING, U, level=0.9), rtol=1e-12)
    assert one[0] == pytest.approx(1.164729, abs=1e-6)


@pytest.mark.parametrize("coordinates", [1, 2])
def test_the_sensitivity_is_that_of_the_whole_covariance(coordinates):
    """Of the definition, with an inverse of all antennas; and by its zero-out half."""
    h = cn(3, 4)
    rows = np.concatenate([h.real, h.imag], axis=1) if coordinates == 1 else h
    noise = 0.2 * np.eye(rows.shape[1]) + 0.9**2 * 0.5 * rows.T @ rows.conj()
    expected = [2 * 0.9 * 0.6 * np.sqrt((row.conj() @ np.linalg.inv(noise) @ row).real) for row in rows]
    found = theory.antennas_sensitivity(SETTING, h, amplitude=0.9, coordinates_per_use=coordinates)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    stays = theory.antennas_sensitivity(
        SETTING, h, amplitude=0.9, coordinates_per_use=coordinates, neighbours="zero-out"
    )
    np.testing.assert_allclose(stays, found / 2)


def test_more_antennas_are_no_privacy_for_free():
    """Every further antenna shows more of each user; with noise of users, as much as if each were alone."""
    h = cn(6, 4096)
    about = SETTING._replace(num_users=6, receiver_noise=1.0, clip=1.0)
    quiet = about._replace(noise_variance=0.0)
    sizes = (1, 2, 8, 64, 512, 4096)
    noisy, alone = (
        np.array([theory.antennas_sensitivity(one, h[:, :m], coordinates_per_use=2) for m in sizes])
        for one in (about, quiet)
    )
    assert (np.diff(noisy, axis=0) > 0).all() and (np.diff(alone, axis=0) > 0).all()
    assert (noisy[-1] / 2) ** 2 == pytest.approx(1.999, abs=1e-3)
    np.testing.assert_allclose(noisy[-1], 2 / np.sqrt(0.5), rtol=1e-3)
    np.testing.assert_allclose(alone[-1] / alone[0] * abs(h[:, 0]), 64, rtol=0.05)
    np.testing.assert_allclose(alone, 2 * np.sqrt([np.square(abs(h[:, :m])).sum(1) for m in sizes]))


def combined_sensitivity(setting, h, total):
    """Of the complex z alone, which is less than what the server has."""
    m = h.shape[1]
    noise = setting.receiver_noise * np.square(abs(total)).sum() / m**2
    return theory.known_coefficients_sensitivity(setting._replace(receiver_noise=noise), h @ total.conj() / m)


def test_what_is_combined_shows_less_than_all_antennas():
    """Of one user, whose gains it is combined with, nothing is lost (MRC)."""
    for _ in range(5):
        h = cn(3, 4)
        assert (combined_sensitivity(SETTING, h, h.sum(0)) < theory.antennas_sensitivity(SETTING, h) * 0.99).all()
    one, quiet = cn(1, 4), SETTING._replace(num_users=1, noise_variance=0.0)
    np.testing.assert_allclose(
        combined_sensitivity(quiet, one, one[0]), theory.antennas_sensitivity(quiet, one), rtol=1e-12
    )


@pytest.mark.parametrize("antennas", [1, 4, 300])
def test_eps_is_averaged_over_the_law_of_gains(antennas):
    """Three rounds, against draws of ||h||^2; gains of mean size would leak less."""
    s = 0.8 / np.sqrt(antennas)
    eps = float(theory.antennas_epsilon(1e-3, s, antennas, rounds=3))
    size = np.sqrt(RNG.gamma(antennas, size=(200_000, 3)).sum(1))
    each = np.asarray(gaussian.delta(eps, s * size))
    assert abs(each.mean() - 1e-3) < 4 * each.std() / np.sqrt(each.size)
    mean = float(gaussian.epsilon(1e-3, s * np.sqrt(3 * antennas)))
    assert eps > mean * (1.1 if antennas < 10 else 1.0)


test_bad_arguments = refused(
    (lambda: theory.combined_coefficients(5, 0), "antennas must be an integer >= 1, got 0"),
    (lambda: theory.combined_coefficients(5, 8, error=-1.0), r"error must be in \[0, inf\), got -1.0"),
    (lambda: theory.antennas_sensitivity(SETTING, U), r"gains must be finite numbers \[K, M\]"),
    (
        lambda: theory.antennas_sensitivity(SETTING._replace(receiver_noise=0.0), U[:, None]),
        r"receiver_noise must be in \(0, inf\), got 0.0",
    ),
    by=lambda make: make(),
)

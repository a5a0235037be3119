"""What the paper's bounds share: where they exist, and one user's eps at the noise of several."""

import numpy as np

from fedjax_priv.theory import _validate, gaussian
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless.participation import users


def window(num_users: Numbers, participation: Numbers, delta_prime: Numbers) -> tuple[Result, Result]:
    """m and beta K; ValueError unless m > beta K, in terms of delta'."""
    k, m = _validate.integer(num_users=num_users), users(num_users, participation).sum()
    least = 2 * np.exp(-2 * m**2 / k)
    if least >= 1:
        allowed = f"above sqrt(K log(2)/2) = {np.sqrt(k * np.log(2) / 2)} in sum (no delta_prime will do)"
        _validate.fail("participation", participation, allowed)
    width = deviation(num_users, delta_prime)
    if (m <= width).any():
        _validate.fail("delta_prime", delta_prime, f"in (2 exp(-2 m^2/K), 1) = ({least}, 1), or m > beta K fails")
    return m, width


def deviation(num_users: Numbers, delta_prime: Numbers) -> Result:
    """beta K, which R strays from m by at most but for probability delta' (Hoeffding)."""
    failure = _validate.real("(0, 1)", delta_prime=delta_prime)
    return np.sqrt(0.5 * _validate.integer(num_users=num_users) * np.log(2 / failure))


def exponent_of(delta_local: Numbers, sensitivity: Numbers) -> Result:
    """Eps at delta_l of one user's Gaussian noise, by the 1.25 formula."""
    return gaussian.classical_epsilon(_validate.real("(0, 1]", delta_local=delta_local), sensitivity)


def exact_exponent(delta_local: Numbers, sensitivity: Numbers) -> Result:
    """Eps at delta_l of one user's Gaussian noise."""
    return gaussian.epsilon(_validate.real("(0, 1]", delta_local=delta_local), sensitivity)


def gaussian_sensitivity(clip: Numbers, noise_variance: Numbers, count: Numbers, receiver_noise: Numbers) -> Result:
    """2L/sqrt(count sigma_min^2 + N0)."""
    variance = _validate.real("(0, inf)", noise_variance=noise_variance).min()
    noise = count * variance + _validate.real("[0, inf)", receiver_noise=receiver_noise)
    return 2 * _validate.real("(0, inf)", clip=clip) / np.sqrt(noise)

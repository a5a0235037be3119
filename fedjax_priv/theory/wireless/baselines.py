"""Table I's other schemes: orthogonal channels, each with its own noise, with and without sampling; all users at once.

The paper's figures are at another delta each, the receiver's noise left out; the rigorous ones are what the server,
which sees which links are silent, really learns from a round about one user's data.
"""

import numpy as np

from fedjax_priv.theory import _validate, gaussian
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless.amplification import amplified
from fedjax_priv.theory.wireless.shared import exponent_of, gaussian_sensitivity


def orthogonal_epsilon(clip: Numbers, noise_variance: Numbers, delta_local: Numbers) -> Result:
    """Orthogonal channels, all users: c = (2L/sigma_min) sqrt(2 log(1.25/delta_l)), at delta_l.

    Args:
      clip: L.
      noise_variance: sigma^2, or one per user, of which the smallest counts.
      delta_local: delta_l, in (0, 1].

    Raises:
      ValueError: an argument outside its range.
    """
    return exponent_of(delta_local, gaussian_sensitivity(clip, noise_variance, 1, 0.0))


def sampled_orthogonal_epsilon(
    participation: Numbers, clip: Numbers, noise_variance: Numbers, delta_local: Numbers
) -> Result:
    """Orthogonal channels, sampled users: log(1 + p (e^c - 1)), at p delta_l, as if silence were not seen.

    Arguments and errors are those of `orthogonal_epsilon`; `participation` is p in (0, 1].
    """
    p = _validate.real("(0, 1]", participation=participation)
    return amplified(orthogonal_epsilon(clip, noise_variance, delta_local), p)


def unsampled_epsilon(num_users: Numbers, clip: Numbers, noise_variance: Numbers, delta_local: Numbers) -> Result:
    """One channel, all users: c/sqrt(K), at delta_l.

    Arguments and errors are those of `orthogonal_epsilon`; `num_users` is K.
    """
    return orthogonal_epsilon(clip, noise_variance, delta_local) / np.sqrt(_validate.integer(num_users=num_users))


def rigorous_orthogonal_delta(
    epsilon: Numbers, *, clip: Numbers, noise_variance: Numbers, receiver_noise: Numbers
) -> Result:
    """Orthogonal channels, all users: the Gaussian mechanism at 2L/sqrt(sigma^2 + N0), exact.

    Args:
      epsilon: eps >= 0.
      clip: L.
      noise_variance: sigma^2.
      receiver_noise: N0.

    Raises:
      ValueError: an argument outside its range.
    """
    sensitivity = gaussian_sensitivity(clip, noise_variance, 1, receiver_noise)
    return gaussian.delta(_validate.real("[0, inf]", epsilon=epsilon), sensitivity)


def rigorous_orthogonal_epsilon(
    delta: Numbers, *, clip: Numbers, noise_variance: Numbers, receiver_noise: Numbers
) -> Result:
    """The inverse of `rigorous_orthogonal_delta`."""
    return gaussian.epsilon(delta, gaussian_sensitivity(clip, noise_variance, 1, receiver_noise))


def rigorous_sampled_orthogonal_delta(
    epsilon: Numbers, *, participation: Numbers, clip: Numbers, noise_variance: Numbers, receiver_noise: Numbers
) -> Result:
    """Orthogonal channels, sampled users: p times `rigorous_orthogonal_delta`; eps is not amplified, exact.

    Arguments and errors are those of `rigorous_orthogonal_delta`; `participation` is p in (0, 1].
    """
    everyone = rigorous_orthogonal_delta(
        epsilon, clip=clip, noise_variance=noise_variance, receiver_noise=receiver_noise
    )
    return _validate.real("(0, 1]", participation=participation) * everyone


def rigorous_sampled_orthogonal_epsilon(
    delta: Numbers, *, participation: Numbers, clip: Numbers, noise_variance: Numbers, receiver_noise: Numbers
) -> Result:
    """The inverse of `rigorous_sampled_orthogonal_delta`."""
    p, delta = _validate.real("(0, 1]", participation=participation), _validate.real("[0, 1]", delta=delta)
    return rigorous_orthogonal_epsilon(
        np.minimum(delta / p, 1), clip=clip, noise_variance=noise_variance, receiver_noise=receiver_noise
    )


def rigorous_unsampled_delta(
    epsilon: Numbers, *, num_users: Numbers, clip: Numbers, noise_variance: Numbers, receiver_noise: Numbers
) -> Result:
    """One channel, all users: the Gaussian mechanism at 2L/sqrt(K sigma^2 + N0), exact.

    Arguments and errors are those of `rigorous_orthogonal_delta`; `num_users` is K.
    """
    k = _validate.integer(num_users=num_users)
    sensitivity = gaussian_sensitivity(clip, noise_variance, k, receiver_noise)
    return gaussian.delta(_validate.real("[0, inf]", epsilon=epsilon), sensitivity)


def rigorous_unsampled_epsilon(
    delta: Numbers, *, num_users: Numbers, clip: Numbers, noise_variance: Numbers, receiver_noise: Numbers
) -> Result:
    """The inverse of `rigorous_unsampled_delta`."""
    k = _validate.integer(num_users=num_users)
    return gaussian.epsilon(delta, gaussian_sensitivity(clip, noise_variance, k, receiver_noise))

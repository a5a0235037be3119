"""The other schemes of Table I: orthogonal channels with and without sampling, and one channel for all users at once.

On an orthogonal channel only a user's own noise protects it. The paper's figures hold at different deltas and ignore
the receiver's noise. The rigorous figures are exact, for one round, against a server that sees which links are silent.
Figures of sampled schemes are for the user who takes part most often, and need p in (0, 1].
"""

import numpy as np

from fedjax_priv.theory import _validate, gaussian
from fedjax_priv.theory._mixtures import amplified
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless import noise
from fedjax_priv.theory.wireless.rounds import Round, checked, without_receiver


def orthogonal_epsilon(setting: Round, delta_local: Numbers) -> Result:
    """Orthogonal channels, all users: c = (2L/sigma_min) sqrt(2 log(1.25/delta_l)), at delta_l in (0, 1].

    Examples:
      >>> setting = Round(num_users=1000, participation=1.0, clip=1.0, noise_variance=1.0)
      >>> print(orthogonal_epsilon(setting, delta_local=1e-5).round(2))
      9.69
    """
    return noise.classical(delta_local, noise.sensitivity(checked(without_receiver(setting)), 1))


def sampled_orthogonal_epsilon(setting: Round, delta_local: Numbers) -> Result:
    """Orthogonal channels, sampled users: log(1 + p (e^c - 1)), at p delta_l, as if the server did not see silence.

    Examples:
      >>> setting = Round(num_users=100, participation=0.2, clip=1.0, noise_variance=100.0)
      >>> print(sampled_orthogonal_epsilon(setting, delta_local=1e-5).round(2))
      0.28
    """
    return amplified(orthogonal_epsilon(setting, delta_local), _most(setting))


def unsampled_epsilon(setting: Round, delta_local: Numbers) -> Result:
    """One channel, all users: c/sqrt(K), at delta_l.

    Examples:
      >>> setting = Round(num_users=100, participation=1.0, clip=1.0, noise_variance=1.0)
      >>> print(unsampled_epsilon(setting, delta_local=1e-5).round(2))
      0.97
    """
    return orthogonal_epsilon(setting, delta_local) / np.sqrt(_validate.integer(num_users=setting.num_users))


def rigorous_orthogonal_delta(setting: Round, epsilon: Numbers) -> Result:
    """Orthogonal channels, all users: the Gaussian mechanism at 2L/sqrt(sigma^2 + N0), for eps >= 0.

    Examples:
      >>> setting = Round(num_users=100, participation=1.0, clip=1.0, noise_variance=1.0)
      >>> print(rigorous_orthogonal_delta(setting, 5.0).round(3))
      0.032
    """
    return gaussian.delta(_validate.real("[0, inf]", epsilon=epsilon), noise.sensitivity(checked(setting), 1))


def rigorous_orthogonal_epsilon(setting: Round, delta: Numbers) -> Result:
    """The inverse of `rigorous_orthogonal_delta`.

    Examples:
      >>> setting = Round(num_users=100, participation=1.0, clip=1.0, noise_variance=1.0)
      >>> print(rigorous_orthogonal_epsilon(setting, 1e-5).round(2))
      10.0
    """
    return gaussian.epsilon(delta, noise.sensitivity(checked(setting), 1))


def rigorous_sampled_orthogonal_delta(setting: Round, epsilon: Numbers) -> Result:
    """Orthogonal channels, sampled users: p times `rigorous_orthogonal_delta`; eps is not amplified.

    Examples:
      >>> setting = Round(num_users=100, participation=0.2, clip=1.0, noise_variance=1.0)
      >>> print(rigorous_sampled_orthogonal_delta(setting, 5.0).round(4))
      0.0065
    """
    return _most(setting) * rigorous_orthogonal_delta(setting, epsilon)


def rigorous_sampled_orthogonal_epsilon(setting: Round, delta: Numbers) -> Result:
    """The inverse of `rigorous_sampled_orthogonal_delta`.

    Examples:
      >>> setting = Round(num_users=100, participation=0.2, clip=1.0, noise_variance=1.0)
      >>> print(rigorous_sampled_orthogonal_epsilon(setting, 1e-5).round(2))
      9.23
    """
    of_sender = _validate.real("[0, 1]", delta=delta) / _most(setting)
    return rigorous_orthogonal_epsilon(setting, np.minimum(of_sender, 1))


def rigorous_unsampled_delta(setting: Round, epsilon: Numbers) -> Result:
    """One channel, all users: the Gaussian mechanism at 2L/sqrt(K sigma^2 + N0), for eps >= 0.

    Examples:
      >>> setting = Round(num_users=100, participation=1.0, clip=1.0, noise_variance=1.0)
      >>> print(f"{rigorous_unsampled_delta(setting, 0.5):.1e}")
      5.1e-04
    """
    everyone = noise.sensitivity(checked(setting), setting.num_users)
    return gaussian.delta(_validate.real("[0, inf]", epsilon=epsilon), everyone)


def rigorous_unsampled_epsilon(setting: Round, delta: Numbers) -> Result:
    """The inverse of `rigorous_unsampled_delta`.

    Examples:
      >>> setting = Round(num_users=100, participation=1.0, clip=1.0, noise_variance=1.0)
      >>> print(rigorous_unsampled_epsilon(setting, 1e-5).round(2))
      0.73
    """
    return gaussian.epsilon(delta, noise.sensitivity(checked(setting), setting.num_users))


def _most(setting: Round) -> Result:
    return _validate.real("(0, 1]", participation=_validate.setting(Round, setting=setting).participation).max()

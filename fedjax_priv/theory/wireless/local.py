"""Lemma 2: what the received signal of a round tells about the data of one user, by the paper.

The others' noise protects too: kappa = sum of their p - beta K is how many of them are sure to send. All figures are
those of the user that takes part most often. Local is user k's data seen through y_t, not through x_k alone.
"""

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless.participation import users
from fedjax_priv.theory.wireless.shared import deviation, exact_exponent, exponent_of, gaussian_sensitivity


def local_epsilon(
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    delta_local: Numbers,
    delta_prime: Numbers,
    receiver_noise: Numbers = 0.0,
) -> Result:
    """Lemma 2 (eq. 17): (2L/sqrt((1+kappa) sigma_min^2 + N0)) sqrt(2 log(1.25/delta_l)).

    The lemma leaves N0 out; the paper's tables count it.

    Args:
      num_users: K.
      participation: p, or `[K]`, one p_k per user; in [0, 1].
      clip: L, the norm that gradients are clipped to.
      noise_variance: sigma^2, or one per user, of which the smallest counts.
      delta_local: delta_l, in (0, 1].
      delta_prime: delta' in (0, 1), with kappa > -1.
      receiver_noise: N0.

    Raises:
      ValueError: an argument outside its range.
    """
    return exponent_of(
        delta_local, _sensitivity(num_users, participation, clip, noise_variance, delta_prime, receiver_noise)
    )


def local_epsilon_analytic(
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    delta_local: Numbers,
    delta_prime: Numbers,
    receiver_noise: Numbers = 0.0,
) -> Result:
    """Lemma 2 with the exact Gaussian mechanism for the 1.25 formula, which makes it a theorem.

    Arguments and errors are those of `local_epsilon`.
    """
    return exact_exponent(
        delta_local, _sensitivity(num_users, participation, clip, noise_variance, delta_prime, receiver_noise)
    )


def local_delta(num_users: Numbers, participation: Numbers, delta_local: Numbers, delta_prime: Numbers) -> Result:
    """Lemma 2's max p (delta_l + delta').

    Arguments and errors are those of `local_epsilon`.
    """
    failure = _validate.real("(0, 1]", delta_local=delta_local) + _validate.real("(0, 1)", delta_prime=delta_prime)
    return users(num_users, participation).max() * failure


def _sensitivity(
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    delta_prime: Numbers,
    receiver_noise: Numbers,
) -> Result:
    p = users(num_users, participation)
    senders = 1 + p.sum() - p.max() - deviation(num_users, delta_prime)
    if (senders <= 0).any():
        allowed = f"such that kappa = sum of the others' participation - beta K > -1, not {senders - 1}"
        _validate.fail("delta_prime", delta_prime, allowed)
    return gaussian_sensitivity(clip, noise_variance, senders, receiver_noise)

"""What can be proved if everybody knows who sends: one Gaussian mechanism per user.

The channel or a schedule decides who sends, or all users send. Then the noise of a round is known, and the rounds in
which a user sends compose exactly, also adaptively: the squares of their sensitivities add up.
"""

import numpy as np

from fedjax_priv.theory import _validate, gaussian
from fedjax_priv.theory._validate import Change, Numbers, Result
from fedjax_priv.theory.neighbours import DISTANCE
from fedjax_priv.theory.wireless.rounds import Round, noises


def public_set_sensitivity(
    setting: Round,
    sends: np.ndarray,
    *,
    level: Numbers = 1.0,
    amplitudes: Numbers = 1.0,
    noise_amplitudes: Numbers = 1.0,
    neighbours: Change = "replacement",
) -> np.ndarray:
    """How far does a user move the received signal, relative to the noise? s_t, `[T, K]`; 0 if it does not send.

    `s_t^2 = (2 a_k L)^2 / (sum_j b_j^2 sigma_j^2 + N0 / c_t^2)` over the senders j, attained by +L u and -L u. L
    replaces 2L for "zero-out": the user sends only its noise.

    Args:
      setting: of every round; `participation` is not used. sigma^2 may be `[K]` or `[T, K]`.
      sends: `[T, K]`, bool, who sends; it is public, so it must not depend on data.
      level: c_t > 0, the amplitude at which users are received, a number or `[T]`.
      amplitudes: a_k in [0, 1], the amplitude of a received gradient divided by c_t: a number, or broadcast to
        `[T, K]`. If users add no noise, upper bounds suffice.
      noise_amplitudes: b_k, the same for a user's noise.
      neighbours: "replacement" or "zero-out".

    Examples:
      >>> setting = Round(num_users=2, participation=1.0, clip=1.0, noise_variance=0.5, receiver_noise=1.0)
      >>> print(public_set_sensitivity(setting, np.array([[True, True], [True, False]])).round(3))
      [[1.414 1.414]
       [1.633 0.   ]]
    """
    clip, variance, receiver_noise = noises(setting)
    moved = _validate.choice(DISTANCE, neighbours=neighbours) * clip * _validate.real("[0, 1]", amplitudes=amplitudes)
    c = np.broadcast_to(_validate.real("(0, inf)", level=level), len(sends))
    b = _validate.real("[0, 1]", noise_amplitudes=noise_amplitudes)
    noise = (sends * b**2 * variance).sum(1) + receiver_noise / c**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sends & (moved > 0), moved / np.sqrt(noise)[:, None], 0)


def public_set_epsilon(delta: Numbers, sensitivity: np.ndarray) -> np.ndarray:
    """For which eps are all rounds together (eps, delta)-private? Exact, `[K]`, one per user.

    Args:
      delta: in [0, 1].
      sensitivity: `[T, K]`, from `public_set_sensitivity`.

    Examples:
      >>> print(public_set_epsilon(1e-5, np.array([[0.3, 0.4], [0.4, 0.0]])).round(3))
      [1.993 1.555]
    """
    return np.asarray(gaussian.epsilon(delta, np.sqrt(np.square(sensitivity).sum(0))))


def public_set_epsilon_by_round(delta: float, sensitivity: np.ndarray) -> np.ndarray:
    """The largest `public_set_epsilon` of a user after each round, `[T]`.

    Examples:
      >>> print(public_set_epsilon_by_round(1e-5, np.array([[0.3, 0.4], [0.4, 0.0]])).round(3))
      [1.555 1.993]
    """
    return np.asarray(gaussian.epsilon(delta, np.sqrt(np.square(sensitivity).cumsum(0).max(1))))


def received_at_most(setting: Round, *, gain: Numbers, power: Numbers) -> Result:
    """How large is a received gradient, divided by L, if users add no noise? At most `min(1, h sqrt(P_k) / L)`.

    This holds for any gradient and any power control. At level c_t, replace P_k by P_k / c_t^2.

    Args:
      setting: with sigma^2 = 0.
      gain: h >= 0, `[T, K]`.
      power: P_k >= 0, energy of a transmission, broadcast to `gain`.

    Raises:
      ValueError: an argument outside its range, or users add noise.

    Examples:
      >>> setting = Round(num_users=2, participation=1.0, clip=2.0, noise_variance=0.0)
      >>> print(received_at_most(setting, gain=np.array([0.5, 3.0]), power=4.0))
      [0.5 1. ]
    """
    clip, variance, _ = noises(setting)
    if variance.any():
        _validate.fail("noise_variance", setting.noise_variance, "0")
    reach = _validate.real("[0, inf)", gain=gain) * np.sqrt(_validate.real("[0, inf)", power=power))
    return np.minimum(1, reach / clip)[()]

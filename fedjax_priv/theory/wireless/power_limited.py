"""What can be proved under replacement if power limits some users, so that they arrive with amplitudes a_k <= 1.

With eq. 26 as printed, the noise depends on ||g_k|| and on who takes part, and neither the paper's bounds nor
`rigorous_epsilon` hold. There is a guarantee if users scale by L, as if ||g_k|| = L, and K_t counts as known.
"""

import numpy as np

from fedjax_priv.theory import _by_user, _validate
from fedjax_priv.theory._accountant import Mechanism
from fedjax_priv.theory._by_user import Users
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless import profiles
from fedjax_priv.theory.wireless.rounds import Checked, Round, checked, in_rounds, noises


def limited_amplitudes(setting: Round, gain: Numbers, power: Numbers, num_params: Numbers) -> Result:
    """With which amplitude does a user arrive? a_k = min(1, h sqrt(P_k)/sqrt(L^2 + d sigma^2)): eq. 26, L for ||g_k||.

    At level c_t, replace P_k by P_k / c_t^2.

    Args:
      setting: with one sigma^2 for all users.
      gain: `[...]`, h.
      power: `[...]`, P_k; the mean energy of a transmission is at most P_k.
      num_params: d.

    Examples:
      >>> setting = Round(num_users=2, participation=1.0, clip=1.0, noise_variance=0.1)
      >>> print(limited_amplitudes(setting, gain=np.array([0.5, 2.0]), power=4.0, num_params=80).round(3))
      [0.333 1.   ]
    """
    clip, variance, _ = noises(setting)
    energy = clip**2 + _validate.integer(num_params=num_params) * variance
    amplitude = _validate.real("[0, inf)", gain=gain) * np.sqrt(_validate.real("[0, inf)", power=power) / energy)
    return np.minimum(1, amplitude)[()]


def limited_epsilon(setting: Round, delta: Numbers, *, amplitudes: Numbers, rounds: Numbers = 1) -> Result:
    """For which eps are all rounds together (eps, delta)-private under replacement? An upper bound.

    Args:
      setting: of every round, or with one participation per round; one sigma^2, before scaling.
      delta: in (0, 1); for several rounds not below about 1e-11.
      amplitudes: a_k in [0, 1], `[K]` or, by round, `[T, K]`; they must not depend on data.
      rounds: T.

    Examples:
      >>> setting = Round(num_users=100, participation=0.2, clip=1.0, noise_variance=1.0)
      >>> print(limited_epsilon(setting, 1e-5, amplitudes=np.linspace(0.5, 1, 100)).round(2))  # some arrive with half
      3.58
    """
    return _by_user.largest_epsilon(_validate.real("(0, 1)", delta=delta), _mechanisms(setting, amplitudes, rounds))


def limited_delta(setting: Round, epsilon: Numbers, *, amplitudes: Numbers, rounds: Numbers = 1) -> Result:
    """The inverse of `limited_epsilon`, at eps >= 0: for one round max_k sum_r P[R=r] q_r delta_G(eps; t_r).

    t_r = 2 a_k L/sqrt(N0 + sigma^2 * sum of the r smallest a_i^2).

    Examples:
      >>> setting = Round(num_users=100, participation=0.2, clip=1.0, noise_variance=1.0)
      >>> print(f"{limited_delta(setting, 1.0, amplitudes=np.full(100, 0.5)):.1e}")
      7.3e-04
    """
    mechanisms = _mechanisms(setting, amplitudes, rounds)
    return _by_user.largest_delta(_validate.real("[0, inf)", epsilon=epsilon), mechanisms)


def _mechanisms(setting: Round, amplitudes: Numbers, rounds: Numbers) -> Users:
    total, a = _validate.length(rounds=rounds), _validate.real("[0, 1]", amplitudes=amplitudes)
    size = _validate.length(num_users=_validate.setting(Round, setting=setting).num_users)
    if np.ndim(setting.noise_variance):
        _validate.fail("noise_variance", setting.noise_variance, "a number, the same for all users and rounds")
    if a.shape not in ((size,), (total, size)):
        _validate.fail("amplitudes", amplitudes, f"[K] or [T, K] for K = {size} users and T = rounds = {total}")
    p, noise = in_rounds(setting, total), noises(setting)[2]
    if a.ndim == 1 and p.ndim < 2 and noise.ndim == 0:
        p, a, noise, counts = (np.broadcast_to(p, size)[None], a[None], noise[None], [total])
    else:
        p, a = (np.broadcast_to(x, (total, size)) for x in (p, a))
        noise, counts = np.broadcast_to(noise, total), [1] * total
    of_round = lambda t: checked(setting._replace(participation=p[t], receiver_noise=noise[t]))
    return _by_user.of_each(lambda t, user: _limited(of_round(t), a[t], user), np.stack([p, a], axis=1), counts)


def _limited(one: Checked, a: np.ndarray, user: int) -> Mechanism:
    """Of r senders, as if they were the weakest; the loss grows with p_k and a_k."""
    least = one.noise_variance * np.append(0, np.cumsum(np.sort(a) ** 2)) + one.receiver_noise  # of r senders
    law, moved = profiles.counts(one, user), 2 * a[user] * one.clip
    with np.errstate(divide="ignore"):
        shift = moved / np.sqrt(least[law.count]) if moved else np.zeros(law.count.shape)
    return profiles.known_set_at(law._replace(sensitivity=shift))

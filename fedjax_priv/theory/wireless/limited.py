"""Replacement where power limits some users, so that what the server receives of them is scaled by a_k <= 1.

With eq. 26 as it is, the noise depends on ||g_k|| and on who takes part, and neither the paper's bounds nor
`rigorous_epsilon` hold. They give a guarantee once the scaling is by L, as if ||g_k|| = L, and K_t counts as known.
"""

import numpy as np

from fedjax_priv.theory import _profiles, _validate, gaussian
from fedjax_priv.theory._profiles import Mechanism
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless.profiles import Round, counts
from fedjax_priv.theory.wireless.rigorous import in_rounds


def limited_amplitudes(
    gain: Numbers, power: Numbers, *, clip: Numbers, noise_variance: Numbers, num_params: Numbers
) -> Result:
    """a_k = min(1, h sqrt(P_k)/sqrt(L^2 + d sigma^2)): eq. 26 with L for ||g_k||.

    Args:
      gain: `[...]`, h.
      power: `[...]`, P_k; the mean energy of a transmission is at most that.
      clip: L.
      noise_variance: sigma^2.
      num_params: d.

    Raises:
      ValueError: an argument outside its range.
    """
    energy = _validate.real("(0, inf)", clip=clip) ** 2 + _validate.integer(num_params=num_params) * _validate.real(
        "[0, inf)", noise_variance=noise_variance
    )
    amplitude = _validate.real("[0, inf)", gain=gain) * np.sqrt(_validate.real("[0, inf)", power=power) / energy)
    return np.minimum(1, amplitude)[()]


def limited_epsilon(
    delta: Numbers,
    *,
    amplitudes: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    receiver_noise: Numbers,
    rounds: Numbers = 1,
) -> Result:
    """The eps at which all rounds together are (eps, delta)-private under replacement; an upper bound.

    Args:
      delta: in (0, 1); composed, not below about 1e-11.
      amplitudes: `[K]`, a_k in [0, 1], or `[T, K]`, those of each round; not dependent on data.
      participation: p; `[K]`, one p_k per user; or `[T, 1]` or `[T, K]`, those of each round.
      clip: L.
      noise_variance: sigma^2, before scaling.
      receiver_noise: N0.
      rounds: T.

    Raises:
      ValueError: an argument outside its range.
    """
    mechanisms = _rounds(amplitudes, participation, clip, noise_variance, receiver_noise, rounds)
    target = _validate.real("(0, 1)", delta=delta)
    return _profiles.epsilon_after(target, mechanisms)


def limited_delta(
    epsilon: Numbers,
    *,
    amplitudes: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    receiver_noise: Numbers,
    rounds: Numbers = 1,
) -> Result:
    """The inverse of `limited_epsilon`: for one round max_k sum_r P[R=r] q_r delta_G(eps; t_r).

    t_r = 2 a_k L/sqrt(N0 + sigma^2 * sum of the r smallest a_i^2). Arguments and errors are those of `limited_epsilon`,
    at eps >= 0.
    """
    mechanisms = _rounds(amplitudes, participation, clip, noise_variance, receiver_noise, rounds)
    eps = _validate.real("[0, inf)", epsilon=epsilon)
    return _profiles.delta_after(eps, mechanisms)


def _rounds(
    amplitudes: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    receiver_noise: Numbers,
    rounds: Numbers,
) -> list[tuple[Mechanism, int]]:
    total, a = int(_validate.integer(rounds=rounds)), _validate.real("[0, 1]", amplitudes=amplitudes)
    if a.ndim not in (1, 2) or a.shape[:-1] not in ((), (total,)):
        _validate.fail("amplitudes", amplitudes, f"[K] or [T, K] for T = rounds = {total}")
    p = in_rounds(participation, a.shape[-1], total)
    noises = (
        _validate.real("(0, inf)", clip=clip),
        _validate.real("[0, inf)", noise_variance=noise_variance),
        _validate.real("[0, inf)", receiver_noise=receiver_noise),
    )
    if a.ndim == 1 and p.ndim < 2:
        return [(_limited(Round(np.broadcast_to(p, a.size), *noises), a), total)]
    shape = (total, a.shape[-1])
    rows = zip(np.broadcast_to(p, shape), np.broadcast_to(a, shape), strict=True)
    return [(_limited(Round(chances, *noises), row), 1) for chances, row in rows]


def _limited(spec: Round, a: np.ndarray) -> Mechanism:
    least = spec.noise_variance * np.append(0, np.cumsum(np.sort(a) ** 2)) + spec.receiver_noise  # of r senders
    return _profiles.worst([_of_user(spec, user, a[user], least) for user in _leaders(a, spec.participation)])


def _of_user(spec: Round, user: int, amplitude: float, least: np.ndarray) -> Mechanism:
    law = counts(spec, user)
    with np.errstate(divide="ignore"):
        shift = 2 * amplitude * spec.clip / np.sqrt(least[law.count])
    term = lambda eps: law.chance * law.share * gaussian.delta(eps, shift)
    return _profiles.symmetric(_profiles.averaged(term, law.chance.size, law.lost))


def _leaders(a: np.ndarray, p: np.ndarray) -> list[int]:
    """Users that no other one exceeds in both a_k and p_k, with which the loss grows."""
    leaders, most = [], -1.0
    for user in np.lexsort((-p, -a)):  # a falls
        if p[user] > most:
            leaders.append(int(user))
            most = p[user]
    return leaders

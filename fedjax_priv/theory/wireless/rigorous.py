"""A rigorous accountant of wireless FedSGD, for users that are aligned (h alpha = 1).

The server sees the received signal, all p_k and gains, and R; not who takes part. Needed are one sigma^2 for all users,
participation and transmission that do not depend on data, and coins that are fresh and that the server does not see.
Neighbouring are inputs that differ in one user, whose data are replaced, or which is there in one of them only.
"""

from typing import Literal

import numpy as np

from fedjax_priv.theory import _profiles, _validate
from fedjax_priv.theory._profiles import Mechanism
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless import profiles
from fedjax_priv.theory.wireless.profiles import Round

Adjacency = Literal["replacement", "removal"]


def rigorous_epsilon(
    delta: Numbers,
    *,
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    receiver_noise: Numbers,
    rounds: Numbers = 1,
    adjacency: Adjacency = "replacement",
) -> Result:
    """The eps at which all rounds together are (eps, delta)-private, whatever came before decides about a round.

    Exact for one round; composed, an upper bound. Infinite for removal if delta is below the probability that all K
    users take part, which only happens if all are there: near p = 1 removal has no guarantee, replacement has. Takes
    well under a second, but for removal that again for every distinct p_k, and for every distinct round.

    Args:
      delta: in (0, 1); composed, not below about 1e-11.
      num_users: K.
      participation: p; `[K]`, one p_k per user; or `[T, 1]` or `[T, K]`, those of each round.
      clip: L, the norm that gradients are clipped to.
      noise_variance: sigma^2, or `[T]`, that of each round.
      receiver_noise: N0.
      rounds: T.
      adjacency: "replacement" or "removal", the larger of the two orders.

    Raises:
      ValueError: an argument outside its range.
    """
    specs = rounds_of(num_users, participation, clip, noise_variance, receiver_noise, rounds)
    target = _validate.real("(0, 1)", delta=delta)
    return _profiles.epsilon_after(target, _mechanisms(specs, adjacency))


def rigorous_delta(
    epsilon: Numbers,
    *,
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    receiver_noise: Numbers,
    rounds: Numbers = 1,
    adjacency: Adjacency = "replacement",
) -> Result:
    """The inverse of `rigorous_epsilon`, with its arguments and errors, at eps >= 0."""
    specs = rounds_of(num_users, participation, clip, noise_variance, receiver_noise, rounds)
    eps = _validate.real("[0, inf)", epsilon=epsilon)
    return _profiles.delta_after(eps, _mechanisms(specs, adjacency))


def known_set_epsilon(
    delta: Numbers,
    *,
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    receiver_noise: Numbers,
    rounds: Numbers = 1,
) -> Result:
    """`rigorous_epsilon` under replacement where the server knows who takes part: sampling no longer amplifies eps."""
    specs = rounds_of(num_users, participation, clip, noise_variance, receiver_noise, rounds)
    target = _validate.real("(0, 1)", delta=delta)
    return _profiles.epsilon_after(target, [(profiles.known_set(spec), count) for spec, count in specs])


def known_set_delta(
    epsilon: Numbers,
    *,
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    receiver_noise: Numbers,
    rounds: Numbers = 1,
) -> Result:
    """The inverse of `known_set_epsilon`: sum_r P[R=r] q_r delta_G(eps; t_r) for one round."""
    specs = rounds_of(num_users, participation, clip, noise_variance, receiver_noise, rounds)
    eps = _validate.real("[0, inf)", epsilon=epsilon)
    return _profiles.delta_after(eps, [(profiles.known_set(spec), count) for spec, count in specs])


def rounds_of(
    num_users: Numbers,
    participation: Numbers,
    clip: Numbers,
    noise_variance: Numbers,
    receiver_noise: Numbers,
    rounds: Numbers,
) -> list[tuple[Round, int]]:
    """The distinct rounds, and how often each happens."""
    size, total = int(_validate.integer(num_users=num_users)), int(_validate.integer(rounds=rounds))
    p = in_rounds(participation, size, total)
    variance = _validate.real("[0, inf)", noise_variance=noise_variance)
    if variance.shape not in ((), (total,)):
        _validate.fail("noise_variance", noise_variance, f"a number, or one for each of rounds = {total}")
    clip_, noise = _validate.real("(0, inf)", clip=clip), _validate.real("[0, inf)", receiver_noise=receiver_noise)
    if p.ndim < 2 and variance.ndim == 0:
        return [(Round(np.broadcast_to(p, size), clip_, variance, noise), total)]
    settings = np.column_stack([np.broadcast_to(variance, total), np.broadcast_to(p, (total, size))])
    distinct, often = np.unique(settings, axis=0, return_counts=True)
    return [(Round(row[1:], clip_, row[0], noise), int(count)) for row, count in zip(distinct, often, strict=True)]


def in_rounds(participation: Numbers, size: int, total: int) -> np.ndarray:
    """P, `[K]`, `[T, 1]` or `[T, K]`; ValueError for other shapes."""
    p = _validate.real("[0, 1]", participation=participation)
    if p.shape not in ((), (size,), (total, 1), (total, size)):
        shapes = f"a number, [K], [T, 1] or [T, K] for K = {size} users and T = rounds = {total}"
        _validate.fail("participation", participation, shapes)
    return p


def _mechanisms(specs: list[tuple[Round, int]], adjacency: Adjacency) -> list[tuple[Mechanism, int]]:
    if adjacency not in ("replacement", "removal"):
        _validate.fail("adjacency", adjacency, '"replacement" or "removal"')
    mechanism = profiles.replacement if adjacency == "replacement" else profiles.removal
    return [(mechanism(spec), count) for spec, count in specs]

"""What can be proved about wireless FedSGD over all rounds, for aligned users (h alpha = 1).

The server sees the received signal, all p_k and gains, and the number R of participants, but not who they are. The
proof needs one sigma^2 for all users, participation and transmission that do not depend on data, and fresh coins that
the server does not see. Adjacent inputs differ in one user: its data are replaced, or it is in only one of them.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from fedjax_priv.theory import _accountant, _by_user, _validate
from fedjax_priv.theory._accountant import Mechanism
from fedjax_priv.theory._by_user import Users
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless import profiles
from fedjax_priv.theory.wireless.rounds import Checked, Round, distinct, in_order

Adjacency = Literal["replacement", "removal"]


def rigorous_epsilon(
    setting: Round, delta: Numbers, *, rounds: Numbers = 1, adjacency: Adjacency = "replacement"
) -> Result:
    """For which eps are all rounds together (eps, delta)-private, even if a round depends on earlier releases?

    It is the figure of the worst user. If p differs by user and round and there are more than 50 pairs of a user and a
    round, or for removal, it is a larger one: each round counts the user that is worst in it.

    Exact for one round, and an upper bound for several. For removal it is infinite if delta is below the probability
    that all K users take part, since R = K shows that nobody was removed: near p = 1 removal has no guarantee, but
    replacement has one. It takes well under a second per distinct round; for removal, per distinct round and p_k.

    Args:
      setting: of every round, or with one value per round.
      delta: in (0, 1); for several rounds not below about 1e-11.
      rounds: T.
      adjacency: "replacement", or "removal": the larger of both orders.

    Examples:
      >>> setting = Round(num_users=100, participation=0.2, clip=1.0, noise_variance=1.0)
      >>> print(rigorous_epsilon(setting, 1e-5).round(2), rigorous_epsilon(setting, 1e-5, rounds=10).round(2))
      0.57 1.41
    """
    return _by_user.largest_epsilon(_validate.real("(0, 1)", delta=delta), _adjacent(setting, rounds, adjacency))


def rigorous_delta(
    setting: Round, epsilon: Numbers, *, rounds: Numbers = 1, adjacency: Adjacency = "replacement"
) -> Result:
    """The inverse of `rigorous_epsilon`, at eps >= 0.

    Examples:
      >>> setting = Round(num_users=100, participation=0.2, clip=1.0, noise_variance=1.0)
      >>> print(f"{rigorous_delta(setting, 0.5):.1e}")
      3.1e-05
    """
    return _by_user.largest_delta(_validate.real("[0, inf)", epsilon=epsilon), _adjacent(setting, rounds, adjacency))


def known_set_epsilon(setting: Round, delta: Numbers, *, rounds: Numbers = 1) -> Result:
    """`rigorous_epsilon` under replacement if the server knows who takes part: sampling does not amplify eps.

    Examples:
      >>> setting = Round(num_users=100, participation=0.2, clip=1.0, noise_variance=1.0)
      >>> print(known_set_epsilon(setting, 1e-5).round(2), rigorous_epsilon(setting, 1e-5).round(2))
      1.7 0.57
    """
    return _by_user.largest_epsilon(
        _validate.real("(0, 1)", delta=delta), _of_users(profiles.known_set, setting, rounds)
    )


def known_set_delta(setting: Round, epsilon: Numbers, *, rounds: Numbers = 1) -> Result:
    """The inverse of `known_set_epsilon`: sum_r P[R=r] q_r delta_G(eps; t_r) for one round.

    Examples:
      >>> setting = Round(num_users=100, participation=0.2, clip=1.0, noise_variance=1.0)
      >>> print(f"{known_set_delta(setting, 1.0):.1e}")
      7.3e-04
    """
    return _by_user.largest_delta(
        _validate.real("[0, inf)", epsilon=epsilon), _of_users(profiles.known_set, setting, rounds)
    )


def epsilon_by_round(setting: Round, delta: float, *, rounds: Numbers, known_set: bool = False) -> np.ndarray:
    """`rigorous_epsilon` under replacement after each round, `[T]`; with `known_set`, `known_set_epsilon`.

    With more than 128 rounds, eps is computed after some of them; the others have the eps of the next computed one.

    Examples:
      >>> setting = Round(num_users=100, participation=0.2, clip=1.0, noise_variance=1.0)
      >>> print(epsilon_by_round(setting, 1e-5, rounds=3).round(2))
      [0.57 0.72 0.84]
    """
    target = _validate.number("(0, 1)", delta=delta)
    kinds, which = in_order(setting, rounds)
    known_set = _validate.flag(known_set=known_set)
    starts = np.flatnonzero(np.diff(which, prepend=-1))
    counts = np.diff(starts, append=which.size).tolist()

    def so_far(kinds: Sequence[tuple[Mechanism, int]]) -> np.ndarray:
        ordered = [(kinds[which[at]][0], count) for at, count in zip(starts, counts, strict=True)]
        return _accountant.epsilon_by_round(target, ordered)

    of = profiles.known_set if known_set else profiles.replacement
    return np.max([so_far(each) for each in _of_kinds(of, [(one, 1) for one in kinds])], axis=0)


def _adjacent(setting: Round, rounds: Numbers, adjacency: Adjacency) -> Users:
    if adjacency not in ("replacement", "removal"):
        _validate.fail("adjacency", adjacency, '"replacement" or "removal"')
    if adjacency == "removal":
        return [[(profiles.removal(one), count) for one, count in distinct(setting, rounds)]]
    return _of_users(profiles.replacement, setting, rounds)


def _of_users(of: Callable[[Checked, int], Mechanism], setting: Round, rounds: Numbers) -> Users:
    return _of_kinds(of, distinct(setting, rounds))


def _of_kinds(of: Callable[[Checked, int], Mechanism], kinds: list[tuple[Checked, int]]) -> Users:
    ranks = np.stack([one.participation[None] for one, _ in kinds])
    return _by_user.of_each(lambda kind, user: of(kinds[kind][0], user), ranks, [count for _, count in kinds])

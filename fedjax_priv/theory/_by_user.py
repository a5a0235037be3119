"""Rounds in which another user leaks most each time: each user's own rounds are composed, and the worst user counts."""

from collections.abc import Callable, Sequence

import numpy as np

from fedjax_priv.theory import _accountant
from fedjax_priv.theory._accountant import Mechanism
from fedjax_priv.theory._validate import Numbers, Result

Users = Sequence[Sequence[tuple[Mechanism, int]]]
"""Of each user, its rounds: pairs of a mechanism and how often it is used."""
MOST = 50
"""Pairs of a user and a kind of rounds in which it may take part; each takes about 20 ms.

If there are more, each round counts its own worst user: a bound, and cheaper.
"""
NOTHING: Mechanism = _accountant.symmetric(np.zeros_like)
"""Of a round in which a user has no part."""


def of_each(mechanism: Callable[[int, int], Mechanism], ranks: np.ndarray, counts: Sequence[int]) -> Users:
    """The rounds of each user that may be the worst one; the largest figure of any of them holds for everybody.

    Args:
      mechanism: of a kind of rounds and a user.
      ranks: `[kinds, n, K]`, n numbers of each user, with all of which its privacy loss in a round grows; with a number
        that is 0 there is none.
      counts: rounds of each kind.
    """
    users, active = leaders(ranks.reshape(-1, ranks.shape[2])), np.all(ranks > 0, axis=1)
    if len(users) > 1 and active[:, users].sum() > MOST:
        worst = lambda kind: _accountant.worst([mechanism(kind, user) for user in leaders(ranks[kind])])
        return [[(worst(kind), count) for kind, count in enumerate(counts)]]
    of = lambda kind, user: mechanism(kind, user) if active[kind, user] else NOTHING
    return [[(of(kind, user), count) for kind, count in enumerate(counts)] for user in users]


def own_rounds(ranks: np.ndarray) -> list[np.ndarray]:
    """`[n, T]` of each user that may be the worst one, of numbers `[n, T, K]`; the largest ones if pairs are many."""
    users = leaders(ranks.reshape(-1, ranks.shape[2]))
    if len(users) > 1 and (ranks[:, :, users] > 0).all(0).sum() > MOST:
        return [ranks.max(2)]
    return [ranks[:, :, user] for user in users]


def leaders(ranks: np.ndarray) -> list[int]:
    """Users that no other user exceeds in all of `[n, K]` numbers; of equal users one."""
    found: list[int] = []
    for user in np.argsort(-ranks.sum(0), kind="stable"):
        if not (ranks[:, found] >= ranks[:, [user]]).all(0).any():
            found.append(int(user))
    return found


def largest_epsilon(delta: Numbers, users: Users) -> Result:
    """The largest `_accountant.epsilon_after` of a user."""
    return np.max([_accountant.epsilon_after(delta, _with_part(rounds)) for rounds in users], axis=0)[()]


def largest_delta(epsilon: Numbers, users: Users) -> Result:
    """The largest `_accountant.delta_after` of a user."""
    return np.max([_accountant.delta_after(epsilon, _with_part(rounds)) for rounds in users], axis=0)[()]


def _with_part(rounds: Sequence[tuple[Mechanism, int]]) -> Sequence[tuple[Mechanism, int]]:
    return [one for one in rounds if one[0] is not NOTHING] or [(NOTHING, 1)]

"""Servers that tell the clients of a secure sum different lists of survivors.

If a client's list has at least `threshold` users and the client itself, the client opens its share of the seed of each
user on the list, and of the key of every other user. With different lists, clients together open what the server needs
to read the sum over a few of them. `theory.lying_server` computes how few.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, LyingServer

_MOST_CLIENTS = 10_000
"""The lists of so many are an array of 100 MB."""


def split_lists(num_clients: int, threshold: int, *, target: int = 0, colluding: Sequence[int] = ()) -> LyingServer:
    """Lists with which the server reads the smallest sum over the target and a few others.

    Call this set P. Every honest client outside P is missing from `threshold - c` honest lists; with the shares of the
    c colluders this opens its key. Every client in P is on all lists, which opens its seed. At most `num_clients -
    threshold` clients may be missing from a list, so P has at least `theory.lying_server.smallest_sum` clients. The
    clients outside P are placed evenly on a circle, and each is missing from the lists of the next ones.

    Args:
      num_clients: clients that all take part, N; at most 10,000.
      threshold: of the protocol, t.
      target: a client in P.
      colluding: clients that give the server all their shares, and sign every list.

    Raises:
      ValueError: the threshold is not above the number of colluders and at most the number of clients, or target and
        colluders are no different clients; or, when a round is traced, the data have another number of clients.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> lies = split_lists(30, threshold=16)
      >>> told = lies.lists(jnp.ones(30, bool), cohort_of(30))
      >>> int(told.all(0).sum())  # P: who is on all lists
      4
    """
    honest = _honest(num_clients, threshold, target, colluding)
    told, needed = np.ones((num_clients, num_clients), bool), threshold - len(colluding)
    outside = min(len(honest) - 1, len(honest) * (num_clients - threshold) // needed)
    for place in (np.arange(outside) * len(honest)) // max(outside, 1):  # never the last one
        lists = (place + np.arange(1, needed + 1)) % len(honest)
        told[honest[lists], honest[place]] = False
    return _of_population(told, colluding)


def both_secrets(num_clients: int, threshold: int, *, target: int = 0, colluding: Sequence[int] = ()) -> LyingServer:
    """Two lists with which the server reads the target alone, although each is signed by `threshold` clients.

    `threshold - c` honest clients, the target among them, are told that everybody survived. The other honest clients
    are told that these were lost. This opens both secrets of each of these clients, and the sum of all clients is still
    correct.

    Args:
      num_clients: clients that all take part, N; at most 10,000.
      threshold: of the protocol, t; at most (N + c) / 2.
      target: the client to be read.
      colluding: clients that give the server all their shares, and sign every list.

    Raises:
      ValueError: as `split_lists`, or there are too few clients for two lists.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> lies = both_secrets(30, threshold=16, colluding=(28, 29))
      >>> told = lies.lists(jnp.ones(30, bool), cohort_of(30))
      >>> len(np.unique(told, axis=0))
      2
    """
    honest = _honest(num_clients, threshold, target, colluding)
    if 2 * threshold > num_clients + len(colluding):
        most = (num_clients + len(colluding)) // 2
        raise ValueError(f"threshold must be at most {most}, half of clients and colluders, got {threshold}")
    told, first = np.ones((num_clients, num_clients), bool), honest[len(colluding) - threshold :]
    told[np.ix_(~np.isin(np.arange(num_clients), [*first, *colluding]), first)] = False
    return _of_population(told, colluding)


def _honest(num_clients: int, threshold: int, target: int, colluding: Sequence[int]) -> np.ndarray:
    """Clients that do not collude, the target the last.

    Raises:
      ValueError: as `split_lists`.
    """
    if _validate.integer(at_least=2, num_clients=num_clients) > _MOST_CLIENTS:
        raise ValueError(f"num_clients must be at most {_MOST_CLIENTS}, got {num_clients}")
    _validate.integer(at_least=0, threshold=threshold, target=target)
    if not isinstance(colluding, Sequence | np.ndarray):
        raise ValueError(f"colluding must be a sequence of clients, such as (2, 3), got {colluding!r}")
    for client in colluding:
        _validate.integer(at_least=0, colluding=client)
    everyone, n, named = range(num_clients), num_clients, [target, *colluding]
    if len({*named}) < len(named) or not {*named} <= {*everyone}:
        raise ValueError(f"target and colluding must be different clients below {n}, got {target}, {[*colluding]}")
    if not len(colluding) < threshold <= num_clients:
        raise ValueError(f"threshold must be above {len(colluding)} colluders, at most {num_clients}, got {threshold}")
    honest = [client for client in everyone if client not in colluding]
    after = honest.index(target) + 1
    return np.array(honest[after:] + honest[:after])


def _of_population(told: Bool[np.ndarray, "n n"], colluding: Sequence[int]) -> LyingServer:
    def lists(alive: Array, cohort: Cohort) -> Bool[Array, "n n"]:
        del alive
        return jnp.asarray(told)[cohort.client[:, None], cohort.client[None, :]]

    return LyingServer(lists=lists, colluding=tuple(colluding), num_clients=len(told))

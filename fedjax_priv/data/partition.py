"""Partitions: which client holds which samples. Every sample goes to exactly one client.

Host side, NumPy. Every function but `by_user` takes `labels`, `[N]` integers, `num_clients`, from 1 to N, and a `seed`
>= 0. The same arguments give the same partition; one out of range raises ValueError.
"""

from typing import Any

import numpy as np

from fedjax_priv import _validate
from fedjax_priv.engine.rounded_fractions import part_of

Parts = list[np.ndarray]
"""One array of sample numbers per client."""

_EVEN = 1e100  # a concentration at which all fractions are equal; sums of much larger draws overflow


def iid(labels: np.ndarray, num_clients: int, seed: int) -> Parts:
    """Shuffles and deals evenly: sizes differ by at most one.

    Raises:
      ValueError: `labels` is not an array of integers, or a number is out of range.

    Examples:
      >>> print([len(part) for part in iid(np.zeros(10, int), num_clients=3, seed=0)])
      [4, 3, 3]
    """
    labels, rng = checked(labels, num_clients, seed)
    return np.array_split(rng.permutation(len(labels)), num_clients)


def shards(labels: np.ndarray, num_clients: int, seed: int, *, num_shards: int = 300) -> Parts:
    """Sorts by label, cuts into shards, and gives each client `num_shards / num_clients` random ones.

    McMahan et al. 2017, section 3 (200 shards for 100 clients). Shard sizes differ by at most one. If no label has
    fewer samples than a shard, a shard has at most two labels.

    Args:
      num_shards: a multiple of `num_clients`, at most N; the default is that of the SparseSecAgg paper.

    Raises:
      ValueError: `labels` is not an array of integers, or a number is out of range.

    Examples:
      >>> labels = np.repeat([0, 1, 2], 100)
      >>> parts = shards(labels, num_clients=3, seed=0, num_shards=6)
      >>> print([np.bincount(labels[part], minlength=3).tolist() for part in parts])
      [[0, 100, 0], [0, 0, 100], [100, 0, 0]]
    """
    labels, rng = checked(labels, num_clients, seed)
    _validate.integer(num_shards=num_shards)
    _validate.divides({"num_clients": num_clients}, num_shards=num_shards)
    _at_most(len(labels), num_shards=num_shards)
    cut = np.array_split(np.argsort(labels, kind="stable"), num_shards)
    hands = rng.permutation(num_shards).reshape(num_clients, -1)
    return [np.concatenate([cut[shard] for shard in hand]) for hand in hands]


def gamma_similarity(labels: np.ndarray, num_clients: int, seed: int, *, gamma: float) -> Parts:
    """Deals a random fraction gamma of the samples evenly, sorts the others by label and cuts them into runs.

    The number of samples dealt is rounded down, after errors of float64 are corrected: 0.29 of 100 is 29. Karimireddy
    et al. 2020 (SCAFFOLD), section 7, and ByzFL: 1 is `iid`, 0 gives each client a run of labels. Sizes differ by at
    most one.

    Args:
      gamma: in [0, 1].

    Raises:
      ValueError: `labels` is not an array of integers, or a number is out of range.

    Examples:
      >>> labels = np.repeat([0, 1, 2], 100)
      >>> parts = gamma_similarity(labels, num_clients=3, seed=0, gamma=0.1)
      >>> print([np.bincount(labels[part], minlength=3).tolist() for part in parts])
      [[3, 5, 92], [6, 90, 4], [91, 5, 4]]
    """
    labels, rng = checked(labels, num_clients, seed)
    _validate.fraction(gamma=gamma)
    alike, rest = np.split(rng.permutation(len(labels)), [part_of(gamma, len(labels))])
    rest = rest[np.argsort(labels[rest], kind="stable")]
    runs = zip(np.array_split(alike, num_clients), np.array_split(rest, num_clients)[::-1], strict=True)
    return [np.concatenate(both) for both in runs]


def dirichlet(labels: np.ndarray, num_clients: int, seed: int, *, concentration: float, min_size: int = 1) -> Parts:
    """Label skew: divides the samples of each label by a draw from Dirichlet(concentration, ..., concentration).

    Yurochkin et al. 2019, section 4. A smaller concentration gives each label to fewer clients. A client with fewer
    than `min_size` samples gets random ones from whoever has most, one at a time; the common alternative, to redraw the
    whole partition until all clients have enough, may never end.

    Args:
      concentration: in (0, 1e100].
      min_size: least number of samples per client; `num_clients * min_size` is at most N.

    Raises:
      ValueError: `labels` is not an array of integers, or a number is out of range.

    Examples:
      >>> labels = np.repeat([0, 1, 2], 100)
      >>> parts = dirichlet(labels, num_clients=3, seed=0, concentration=0.1)
      >>> print([np.bincount(labels[part], minlength=3).tolist() for part in parts])
      [[0, 0, 100], [38, 100, 0], [62, 0, 0]]
    """
    labels, rng = checked(labels, num_clients, seed)
    _validate.at_most(_EVEN, concentration=concentration)
    _validate.integer(min_size=min_size)
    _at_most(len(labels) // num_clients, min_size=min_size)
    dealt = [[] for _ in range(num_clients)]
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        cuts = _dirichlet_cuts(rng, concentration, num_clients, len(members))
        for pile, piece in zip(dealt, np.split(members, cuts), strict=True):
            pile.append(piece)
    return _top_up([rng.permutation(np.concatenate(pile)) for pile in dealt], min_size)


def quantity_skew(labels: np.ndarray, num_clients: int, seed: int, *, concentration: float) -> Parts:
    """Sizes from Dirichlet(concentration, ..., concentration), samples at random; every client has at least one.

    Li et al. 2022 (NIID-Bench). Each client gets one sample, and the draw divides the other N - n.

    Args:
      concentration: in (0, 1e100].

    Raises:
      ValueError: `labels` is not an array of integers, or a number is out of range.

    Examples:
      >>> parts = quantity_skew(np.zeros(100, int), num_clients=3, seed=0, concentration=0.5)
      >>> print([len(part) for part in parts])
      [31, 1, 68]
    """
    labels, rng = checked(labels, num_clients, seed)
    _validate.at_most(_EVEN, concentration=concentration)
    cuts = _dirichlet_cuts(rng, concentration, num_clients, len(labels) - num_clients)
    return np.split(rng.permutation(len(labels)), cuts + np.arange(1, num_clients))


def by_user(users: np.ndarray) -> Parts:
    """The natural partition: each client has the samples of one user.

    Args:
      users: `[N]`, who each sample is from: integers or strings, such as the column of a table; objects are taken if
        all are strings.

    Returns:
      The sample numbers of each user, in their order; users in ascending order, as `np.unique` has them.

    Raises:
      ValueError: `users` is not one integer or string per sample.

    Examples:
      >>> print(by_user(np.array(["bob", "ann", "bob"]))[1])  # of bob
      [0 2]
    """
    users = np.asarray(users)
    if users.dtype == object and all(isinstance(user, str) for user in users.flat):
        users = users.astype(str)
    if users.ndim != 1 or not users.size or users.dtype.kind not in "iuUS":
        raise ValueError(f"users must be integers or strings [N], not empty, got {users.dtype} {users.shape}")
    _, user, size = np.unique(users, return_inverse=True, return_counts=True)
    return np.split(np.argsort(user, kind="stable"), np.cumsum(size)[:-1])


def checked(labels: Any, num_clients: int, seed: int) -> tuple[np.ndarray, np.random.Generator]:
    """Labels by position, also of a series of pandas, and a generator; checks what all partitions have in common."""
    if not hasattr(labels, "dtype"):
        raise ValueError(f"labels must be an array of integers [N], got {type(labels).__name__}: np.asarray makes one")
    labels = np.asarray(labels)  # types of pandas, such as Int64 and category, are unknown to NumPy
    if labels.ndim != 1 or not labels.size or labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be a 1-d array of integers, not empty, got {labels.dtype} {labels.shape}")
    _validate.integer(num_clients=num_clients)
    _at_most(len(labels), num_clients=num_clients)
    _validate.integer(0, seed=seed)
    return labels, np.random.default_rng(seed)


def _at_most(bound: int, **values: int) -> None:
    for name, value in values.items():
        if value > bound:
            raise ValueError(f"{name} must be at most {bound} for this number of samples, got {value}")


def _dirichlet_cuts(rng: np.random.Generator, concentration: float, num_clients: int, total: int) -> np.ndarray:
    """Where to cut `total` samples into fractions drawn from Dirichlet: `[num_clients - 1]`, ascending; pieces may be
    empty.
    """
    fractions = rng.dirichlet(np.full(num_clients, concentration))
    return np.rint(np.cumsum(fractions)[:-1] * total).astype(int)


def _top_up(parts: Parts, min_size: int) -> Parts:
    """Moves the last samples of the largest clients, in random order already, to those with fewer than `min_size`."""
    sizes = np.array([len(part) for part in parts])
    while sizes.min() < min_size:
        poor, rich = int(np.argmin(sizes)), int(np.argmax(sizes))
        parts[poor], parts[rich] = np.append(parts[poor], parts[rich][-1]), parts[rich][:-1]
        sizes[poor] += 1
        sizes[rich] -= 1
    return parts

"""Partitions that give each client few labels, as in published experiments. Host side, NumPy; arguments as in
`partition`.
"""

import numpy as np

from fedjax_priv import _validate
from fedjax_priv.data.partition import Parts, checked


def few_labels(labels: np.ndarray, num_clients: int, seed: int, *, labels_per_client: int) -> Parts:
    """Each client has so many labels, and those with a label divide its samples evenly.

    Li et al. 2022 (NIID-Bench), "#C = k": client i has the i-th label, modulo their number, and others at random.

    Args:
      num_clients: at least the number of labels, so that somebody has each.
      labels_per_client: k, from 1 to the number of labels.

    Raises:
      ValueError: an argument is out of range, or a label has fewer samples than clients.

    Examples:
      >>> labels = np.repeat(np.arange(5), 8)
      >>> print([len(set(labels[part])) for part in few_labels(labels, 6, 0, labels_per_client=2)])
      [2, 2, 2, 2, 2, 2]
    """
    labels, rng = checked(labels, num_clients, seed)
    names = np.unique(labels)
    _validate.integer(labels_per_client=labels_per_client)
    if labels_per_client > names.size:
        raise ValueError(f"labels_per_client must be at most {names.size}, the labels, got {labels_per_client}")
    if num_clients < names.size:
        raise ValueError(f"num_clients must be at least {names.size}, the labels, got {num_clients}")
    held = [_some(rng, client % names.size, labels_per_client, names.size) for client in range(num_clients)]
    parts: list[list[np.ndarray]] = [[] for _ in range(num_clients)]
    for number, name in enumerate(names):
        holders = [client for client, mine in enumerate(held) if number in mine]
        members = rng.permutation(np.flatnonzero(labels == name))
        if len(members) < len(holders):
            raise ValueError(
                f"labels must have a sample of {name} for each of {len(holders)} clients, got {len(members)}"
            )
        for client, piece in zip(holders, np.array_split(members, len(holders)), strict=True):
            parts[client].append(piece)
    return [np.concatenate(pieces) for pieces in parts]


def _some(rng: np.random.Generator, first: int, number: int, of: int) -> set[int]:
    """`first` and others, all different, below `of`."""
    others = np.delete(np.arange(of), first)
    return {first, *rng.choice(others, number - 1, replace=False).tolist()}


def lognormal(
    labels: np.ndarray, num_clients: int, seed: int, *, log_deviation: float = 2.0, min_per_label: int = 5
) -> Parts:  # fmt: skip
    """Two labels per client, and sizes that vary greatly: their logarithms are normal.

    Li et al. 2020 (FedProx), MNIST: with K labels, client u has labels u mod K and u + 1 mod K, the first
    `min_per_label` samples that are left of each, and then a share of the others in proportion to
    exp(log_deviation z), z standard normal. Samples are taken in their order. A share as large as what is left is left
    out, so some samples are with nobody.

    Args:
      num_clients: a multiple of the number of labels.
      log_deviation: standard deviation of the logarithms, in (0, 50]: beyond, float64 does not hold the shares.
      min_per_label: samples of each of its labels that every client has.

    Raises:
      ValueError: an argument is out of range, or a label has no more than `2 num_clients / K min_per_label` samples.

    Examples:
      >>> labels = np.repeat(np.arange(10), 100)
      >>> print(len(lognormal(labels, 20, 0)), set(labels[lognormal(labels, 20, 0)[13]].tolist()) == {3, 4})
      20 True
    """
    labels, rng = checked(labels, num_clients, seed)
    _validate.at_most(50, log_deviation=log_deviation)
    _validate.integer(min_per_label=min_per_label)
    names, size = np.unique(labels, return_counts=True)
    _validate.divides({"number of labels": names.size}, num_clients=num_clients)
    holders = 2 * num_clients // names.size
    if min_per_label > (most := (size.min() - 1) // holders):
        raise ValueError(f"min_per_label must be at most {most}, to leave samples of each label, got {min_per_label}")
    given = holders * min_per_label
    weight = rng.lognormal(0, log_deviation, (names.size, num_clients // names.size, 2))
    shares = (size - given)[:, None, None] * weight / weight.sum((1, 2), keepdims=True)
    members = [np.flatnonzero(labels == name) for name in names]
    taken, parts = np.zeros(names.size, int), [[] for _ in range(num_clients)]

    def take(client: int, place: int, number: int) -> None:
        label = (client + place) % names.size
        if taken[label] + number < len(members[label]):
            parts[client].append(members[label][taken[label] : taken[label] + number])
            taken[label] += number

    for client, place in np.ndindex(num_clients, 2):
        take(client, place, min_per_label)
    for client, place in np.ndindex(num_clients, 2):
        take(client, place, int(shares[(client + place) % names.size, client // names.size, place]))
    return [np.concatenate(pieces) for pieces in parts]

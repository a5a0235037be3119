"""Who holds which samples: each function gives one index array a client, and every sample to exactly one client.

Host side, NumPy. The same labels, arguments and seed give the same partition.
"""

import numpy as np

from fedjax_priv import _validate

Parts = list[np.ndarray]
"""One array of sample numbers a client."""


def iid(labels: np.ndarray, num_clients: int, seed: int) -> Parts:
    """Shuffled and dealt evenly: sizes differ by one at most.

    Args:
      labels: `[N]` integers.
      num_clients: From 1 to N.
      seed: 0 or above.

    Raises:
      ValueError: An argument is out of range. So it is with the other partitions.
    """
    rng = _generator(labels, num_clients, seed)
    return np.array_split(rng.permutation(len(labels)), num_clients)


def shards(labels: np.ndarray, num_clients: int, seed: int, *, num_shards: int = 300) -> Parts:
    """Sorted by label, cut into shards, `num_shards / num_clients` of them at random to each client.

    McMahan et al. 2017, section 3 (200 shards for 100 clients). Shard sizes differ by one at most; where no label has
    fewer samples than a shard, a shard has two labels at most.

    Args:
      labels: `[N]` integers.
      num_clients: From 1 to N.
      seed: 0 or above.
      num_shards: A multiple of `num_clients`, at most N; the default is that of the SparseSecAgg paper.
    """
    rng = _generator(labels, num_clients, seed)
    _validate.integer(num_shards=num_shards)
    _validate.divides({"num_clients": num_clients}, num_shards=num_shards)
    _at_most(len(labels), num_shards=num_shards)
    cut = np.array_split(np.argsort(labels, kind="stable"), num_shards)
    hands = rng.permutation(num_shards).reshape(num_clients, -1)
    return [np.concatenate([cut[shard] for shard in hand]) for hand in hands]


def gamma_similarity(labels: np.ndarray, num_clients: int, seed: int, *, gamma: float) -> Parts:
    """A share gamma of the samples, at random, is dealt evenly; the others are sorted by label and cut into runs.

    Karimireddy et al. 2020 (SCAFFOLD), section 7, and ByzFL: 1 is `iid`, 0 gives each client a run of labels. Sizes
    differ by one at most.

    Args:
      labels: `[N]` integers.
      num_clients: From 1 to N.
      seed: 0 or above.
      gamma: In [0, 1].
    """
    rng = _generator(labels, num_clients, seed)
    _validate.fraction(gamma=gamma)
    alike, rest = np.split(rng.permutation(len(labels)), [int(len(labels) * gamma)])
    rest = rest[np.argsort(labels[rest], kind="stable")]
    runs = zip(np.array_split(alike, num_clients), np.array_split(rest, num_clients)[::-1], strict=True)
    return [np.concatenate(both) for both in runs]


def dirichlet(labels: np.ndarray, num_clients: int, seed: int, *, concentration: float, min_size: int = 1) -> Parts:
    """Label skew: the samples of each label are divided by a draw from Dirichlet(concentration, ..., concentration).

    Yurochkin et al. 2019, section 4. The smaller the concentration, the fewer clients share a label. A client left with
    fewer than `min_size` samples is given random ones of whoever has most, one at a time; drawing the whole partition
    again until all have enough, as is often done, may never end.

    Args:
      labels: `[N]` integers.
      num_clients: From 1 to N.
      seed: 0 or above.
      concentration: Above 0.
      min_size: Least number of samples a client has; `num_clients * min_size` is at most N.
    """
    rng = _generator(labels, num_clients, seed)
    _validate.positive(concentration=concentration)
    _validate.integer(min_size=min_size)
    _at_most(len(labels) // num_clients, min_size=min_size)
    dealt = [[] for _ in range(num_clients)]
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        cuts = _dirichlet_cuts(rng, concentration, num_clients, len(members))
        for pile, share in zip(dealt, np.split(members, cuts), strict=True):
            pile.append(share)
    return _top_up(rng, [rng.permutation(np.concatenate(pile)) for pile in dealt], min_size)


def quantity_skew(labels: np.ndarray, num_clients: int, seed: int, *, concentration: float) -> Parts:
    """Sizes from Dirichlet(concentration, ..., concentration), samples at random; nobody is left without one.

    Li et al. 2022 (NIID-Bench). Each client has one sample, and the draw divides the other N - n.

    Args:
      labels: `[N]` integers.
      num_clients: From 1 to N.
      seed: 0 or above.
      concentration: Above 0.
    """
    rng = _generator(labels, num_clients, seed)
    _validate.positive(concentration=concentration)
    cuts = _dirichlet_cuts(rng, concentration, num_clients, len(labels) - num_clients)
    return np.split(rng.permutation(len(labels)), cuts + np.arange(1, num_clients))


def _generator(labels: np.ndarray, num_clients: int, seed: int) -> np.random.Generator:
    """Checks what all partitions share, then starts the generator."""
    if labels.ndim != 1 or not labels.size or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels must be a 1-d array of integers, not empty, got {labels.dtype} {labels.shape}")
    _validate.integer(num_clients=num_clients)
    _at_most(len(labels), num_clients=num_clients)
    _validate.integer(0, seed=seed)
    return np.random.default_rng(seed)


def _at_most(bound: int, **values: int) -> None:
    for name, value in values.items():
        if value > bound:
            raise ValueError(f"{name} must be at most {bound} with this many samples, got {value}")


def _dirichlet_cuts(rng: np.random.Generator, concentration: float, num_clients: int, total: int) -> np.ndarray:
    """Where to cut `total` samples into a draw's shares: `[num_clients - 1]`, in order; a piece may be empty."""
    shares = rng.dirichlet(np.full(num_clients, concentration))
    return np.rint(np.cumsum(shares)[:-1] * total).astype(int)


def _top_up(rng: np.random.Generator, parts: Parts, min_size: int) -> Parts:
    """Moves samples, in random order already, from the largest clients to those with fewer than `min_size`."""
    sizes = np.array([len(part) for part in parts])
    while sizes.min() < min_size:
        poor, rich = int(np.argmin(sizes)), int(np.argmax(sizes))
        parts[poor], parts[rich] = np.append(parts[poor], parts[rich][-1]), parts[rich][:-1]
        sizes[poor] += 1
        sizes[rich] -= 1
    return parts

"""A test set with every class's share of the samples.

The numbers are those of scikit-learn's `train_test_split(stratify=...)`, which takes a second to import.
"""

import math

import numpy as np
from jaxtyping import Int


def stratified_split(
    labels: Int[np.ndarray, " n"], test_fraction: float, seed: int
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]:
    """Indices for training and for the test, each in random order.

    Args:
      labels: the class of each sample.
      test_fraction: part of the samples for the test, in (0, 1), rounded up.
      seed: of NumPy's `RandomState`, whose numbers never change.
    """
    random = np.random.RandomState(seed)
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    num_test = math.ceil(test_fraction * len(labels))
    train = _shares(counts, len(labels) - num_test, random)
    test = _shares(counts - train, num_test, random)
    parts: tuple[list, list] = [], []
    for i, members in enumerate(np.split(np.argsort(classes, kind="stable"), np.cumsum(counts)[:-1])):
        shuffled = members[random.permutation(counts[i])]
        parts[0].extend(shuffled[: train[i]])
        parts[1].extend(shuffled[train[i] : train[i] + test[i]])
    return random.permutation(parts[0]), random.permutation(parts[1])


def _shares(counts: np.ndarray, total: int, random: np.random.RandomState) -> np.ndarray:
    """`total` samples over classes in proportion; the largest remainders get what rounding leaves, ties at random."""
    exact = counts / counts.sum() * total
    shares = np.floor(exact)
    left = int(total - shares.sum())
    for remainder in np.unique(exact - shares)[::-1]:
        tied = np.flatnonzero(exact - np.floor(exact) == remainder)
        if left <= 0:
            break
        chosen = random.choice(tied, min(len(tied), left), replace=False)
        shares[chosen] += 1
        left -= len(chosen)
    return shares.astype(int)

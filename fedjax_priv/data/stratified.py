"""A stratified split in scikit-learn's order, without its imports, which take longer than JAX's."""

import math

import numpy as np
from jaxtyping import Int


def stratified_split(
    labels: Int[np.ndarray, " n"], test_fraction: float, seed: int
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]:
    """Training and test samples, as `sklearn.model_selection.train_test_split` shuffles them with `stratify=labels`.

    Each class gives `test_fraction` of its samples to the test set, up to rounding.

    Args:
      labels: integers.
      test_fraction: of the samples, above 0 and below 1; at least one sample of each class must fit both sets.
      seed: of NumPy's legacy generator, an integer >= 0 and below 2**32.
    """
    rng = np.random.RandomState(seed)
    _, classes = np.unique(labels, return_inverse=True)
    counts = np.bincount(classes)
    members = np.split(np.argsort(classes, kind="stable"), np.cumsum(counts)[:-1])
    num_test = math.ceil(test_fraction * len(labels))
    in_train = _spread(counts, len(labels) - num_test, rng)
    in_test = _spread(counts - in_train, num_test, rng)
    shuffled = [of[rng.permutation(len(of))] for of in members]
    train = np.concatenate([of[:a] for of, a in zip(shuffled, in_train, strict=True)])
    test = np.concatenate([of[a : a + b] for of, a, b in zip(shuffled, in_train, in_test, strict=True)])
    return rng.permutation(train), rng.permutation(test)


def _spread(counts: np.ndarray, draws: int, rng: np.random.RandomState) -> np.ndarray:
    """`draws` spread in proportion to `counts`; the largest remainders are rounded up, ties at random."""
    exact = counts / counts.sum() * draws
    whole = np.floor(exact).astype(int)
    remainders, missing = exact - whole, draws - int(whole.sum())
    for value in np.unique(remainders)[::-1]:
        if not missing:
            break
        (ties,) = np.nonzero(remainders == value)
        up = rng.choice(ties, size=min(len(ties), missing), replace=False)
        whole[up] += 1
        missing -= len(up)
    return whole

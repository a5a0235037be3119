"""From a data set and a partition of its samples to the stacked arrays of a round: NumPy, on the host."""

from typing import cast

import numpy as np
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import ClientData
from fedjax_priv.data.dataset import Dataset
from fedjax_priv.data.partition import Parts, dirichlet, gamma_similarity, iid, quantity_skew, shards

PARTITIONS = {
    "iid": iid,
    "shards": shards,
    "gamma_similarity": gamma_similarity,
    "dirichlet": dirichlet,
    "quantity_skew": quantity_skew,
}


def federate(
    dataset: Dataset,
    num_clients: int,
    partition: str = "iid",
    *,
    seed: int = 0,
    clients: slice | None = None,
    **options,
) -> ClientData:
    """Training samples of a data set, spread over clients.

    Args:
      dataset: its training samples are spread; its test samples are not used.
      num_clients: from 1 to the number of training samples.
      partition: `"iid"`, `"shards"`, `"gamma_similarity"`, `"dirichlet"` or `"quantity_skew"`: the functions of
        `partition.py`.
      seed: of the partition, >= 0.
      clients: rows to return; None: all. In a multi-process run, `processes.clients_of_process`.
      **options: further arguments of the partition, such as `concentration=0.5` for `"dirichlet"`.

    Returns:
      As `stack_clients`.
    """
    _validate.one_of(PARTITIONS, partition=partition)
    parts = PARTITIONS[partition](dataset.y_train, num_clients, seed, **options)
    return stack_clients(dataset.x_train, dataset.y_train, parts, clients=clients)


def stack_clients(x: np.ndarray, y: np.ndarray, parts: Parts, *, clients: slice | None = None) -> ClientData:
    """One row of samples per client, as long as the longest; zeros follow a client's own samples.

    Args:
      x: float32 `[N, ...]`, finite.
      y: `[N]` integers, >= 0.
      parts: the sample numbers of each client, at least one per client.
      clients: rows to return; None: all. `m` is always that of all clients.

    Returns:
      examples (float32 `[n, m, ...]`, int32 `[n, m]`) and count int32 `[n]`, NumPy arrays.

    Raises:
      ValueError: an argument is not as described.
    """
    _check_samples(x, y)
    _check_parts(parts, len(x))
    capacity, parts = max(map(len, parts)), parts[clients or slice(None)]
    count = np.array([len(part) for part in parts], np.int32)
    stacked_x = np.zeros((len(parts), capacity, *x.shape[1:]), np.float32)
    stacked_y = np.zeros((len(parts), capacity), np.int32)
    for row_x, row_y, part in zip(stacked_x, stacked_y, parts, strict=True):
        row_x[: len(part)] = x[part]
        row_y[: len(part)] = y[part]
    return ClientData((stacked_x, stacked_y), cast(Array, count))  # jit takes NumPy arrays as they are


def _check_samples(x: np.ndarray, y: np.ndarray) -> None:
    if x.dtype != np.float32 or x.ndim < 2 or not x.size:
        raise ValueError(f"x must be a float32 array [samples, ...], not empty, got {x.dtype} {x.shape}")
    if not np.issubdtype(y.dtype, np.integer) or y.shape != x.shape[:1]:
        raise ValueError(f"y must be {len(x)} integers, one per row of x, got {y.dtype} {y.shape}")
    if not (np.isfinite(x.min()) and np.isfinite(x.max())):  # min and max propagate NaN, and make no array
        raise ValueError("x must be finite, got NaN or infinity")
    if y.min() < 0:
        raise ValueError(f"y must be 0 or above, got {y.min()}")


def _check_parts(parts: Parts, num_samples: int) -> None:
    if not parts:
        raise ValueError("parts must be a list with an array of sample numbers for each client, got none")
    for client, part in enumerate(parts):
        if part.ndim != 1 or not part.size or not np.issubdtype(part.dtype, np.integer):
            raise ValueError(f"parts[{client}] must be 1-d integers, not empty, got {part.dtype} {part.shape}")
        if part.min() < 0 or part.max() >= num_samples:
            raise ValueError(f"parts[{client}] must be sample numbers from 0 to {num_samples - 1}")

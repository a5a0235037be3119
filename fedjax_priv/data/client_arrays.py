"""From samples and a partition of them to the stacked arrays of a round: NumPy, on the host."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import jax
import numpy as np
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import ClientData
from fedjax_priv.data.dataset import Dataset
from fedjax_priv.data.label_splits import few_labels, lognormal
from fedjax_priv.data.partition import Parts, dirichlet, gamma_similarity, iid, quantity_skew, shards

_ALL = (iid, shards, gamma_similarity, dirichlet, quantity_skew, few_labels, lognormal)
Partition = Literal["iid", "shards", "gamma_similarity", "dirichlet", "quantity_skew", "few_labels", "lognormal"]
PARTITIONS = {function.__name__: function for function in _ALL}


def federate(
    dataset: Dataset,
    num_clients: int,
    partition: Partition = "iid",
    *,
    seed: int = 0,
    clients: slice | None = None,
    **options,
) -> ClientData:
    """Training samples of a data set, spread over clients.

    Args:
      dataset: its training samples are spread; its test samples are not used.
      num_clients: from 1 to the number of training samples.
      partition: `"iid"`, `"shards"`, `"gamma_similarity"`, `"dirichlet"`, `"quantity_skew"`, `"few_labels"` or
        `"lognormal"`: the functions of `partition.py` and `label_splits.py`.
      seed: of the partition, >= 0.
      clients: rows to return, at least one; None: all. In a multi-process run, `processes.clients_of_process`.
      **options: further arguments of the partition, such as `concentration=0.5` for `"dirichlet"`.

    Returns:
      As `stack_clients`.

    Raises:
      ValueError: an argument is not as described, or `options` are not those of the partition.

    Examples:
      >>> train = federate(digits(), num_clients=10, partition="dirichlet", concentration=0.5)
      >>> x, y = train.examples
      >>> print(x.shape == (10, train.count.max(), 8, 8, 1), train.count.sum())
      True 1437
    """
    own = "data.stack_clients((x, y), data.iid(y, num_clients, seed=0))"
    _validate.part(Dataset, f"data.digits() (arrays of your own: {own})", dataset=dataset)
    _validate.one_of(PARTITIONS, partition=partition)
    x, y = dataset.x_train, dataset.y_train
    kinds = [getattr(rows, "dtype", type(rows).__name__) for rows in (x, y)]
    if kinds[0] != np.float32 or getattr(kinds[1], "kind", "") not in ("i", "u") or y.ndim != 1 or y.min(initial=0) < 0:
        raise ValueError(f"dataset must have float32 features and integer labels >= 0, got {kinds[0]} and {kinds[1]}")
    _check_options(partition, options)
    parts = PARTITIONS[partition](y, num_clients, seed, **options)
    return stack_clients((x, y.astype(np.int32)), parts, clients=clients)


def _check_options(partition: Partition, options: Mapping[str, Any]) -> None:
    keywords = [
        one for one in inspect.signature(PARTITIONS[partition]).parameters.values() if one.kind is one.KEYWORD_ONLY
    ]
    needed = {one.name for one in keywords if one.default is one.empty}
    if options.keys() - {one.name for one in keywords} or needed - options.keys():
        takes = ", ".join(one.name + ("" if one.name in needed else f" (default {one.default})") for one in keywords)
        got = ", ".join(options) or "none"
        raise ValueError(f"options must be those of partition {partition!r}: {takes or 'none'}; got {got}")


def stack_clients(examples: PyTree, parts: Parts, *, clients: slice | None = None) -> ClientData:
    """One row of samples per client, as long as the longest; zeros follow a client's own samples.

    Args:
      examples: a pytree of arrays `[N, ...]`, one row per sample, such as `(x, y)`: float32 and finite; uint8, such as
        pixels (`models.from_pixels`); bool; or other integers, such as labels and tokens, that fit int32.
      parts: the sample numbers of each client, at least one per client. A sample may be with several clients.
      clients: rows to return, at least one; None: all. `m` is always that of all clients.

    Returns:
      examples `[n, m, ...]`, of the same dtypes but for integers, which become int32, and count int32 `[n]`; NumPy
      arrays.

    Raises:
      ValueError: an argument is not as described.

    Warns:
      UserWarning: `parts` are all of the first samples and none of the last.

    Examples:
      >>> tokens = np.arange(12).reshape(6, 2)
      >>> data = stack_clients({"tokens": tokens}, [np.array([0, 5]), np.array([2])])
      >>> print(data.examples["tokens"].shape, data.count)
      (2, 2, 2) [2 1]
    """
    size = _check_samples(examples)
    _check_parts(parts, size)
    clients = slice(None) if clients is None else clients
    _check_clients(clients, len(parts))
    capacity, parts = max(map(len, parts)), parts[clients]
    count = np.array([len(part) for part in parts], np.int32)

    def stacked(rows: np.ndarray) -> np.ndarray:
        found = np.zeros((len(parts), capacity, *rows.shape[1:]), _kept_dtype(rows))
        for mine, part in zip(found, parts, strict=True):
            mine[: len(part)] = rows[part]
        return found

    return ClientData(jax.tree.map(stacked, examples), cast(Array, count))  # jit takes NumPy arrays as they are


def _check_samples(examples: PyTree) -> int:
    """The number of samples."""
    leaves = jax.tree.leaves_with_path(examples)
    for path, rows in leaves:
        if not isinstance(rows, np.ndarray | np.generic | jax.Array):
            name = f"examples{jax.tree_util.keystr(path)}"
            raise ValueError(f"{name} must be an array [N, ...], got {type(rows).__name__}: np.asarray makes one")
    sizes = {np.shape(rows)[:1] for _, rows in leaves}
    if len(sizes) != 1 or not (size := (*sizes.pop(), 0)[0]):
        raise ValueError(f"examples must be arrays [N, ...] with one N >= 1, got shapes {_shapes(leaves)}")
    for path, rows in leaves:
        _check_values(f"examples{jax.tree_util.keystr(path)}", rows)
    return size


def _shapes(leaves: list) -> str:
    more = ", ..." if len(leaves) > 4 else ""
    return (", ".join(str(np.shape(rows)) for _, rows in leaves[:4]) or "of nothing") + more


def _check_values(name: str, rows: np.ndarray) -> None:
    whole = np.issubdtype(rows.dtype, np.integer)
    if rows.dtype == bool:
        return
    if rows.dtype != np.float32 and not whole:
        raise ValueError(f"{name} must be float32, bool or integers, got {rows.dtype}: convert it, as by astype")
    low, high = rows.min(initial=0), rows.max(initial=0)  # they propagate NaN, and make no array
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    if whole and not (int(low) >= -(2**31) and int(high) < 2**31):
        raise ValueError(f"{name} must be integers that fit int32, got {low} to {high}")


def _kept_dtype(rows: np.ndarray) -> np.dtype:
    kept = (np.float32, np.uint8, bool)
    return rows.dtype if rows.dtype in kept else np.dtype(np.int32)


def _check_parts(parts: Any, num_samples: int) -> None:
    if not isinstance(parts, list | tuple) or not parts:
        got = "none" if isinstance(parts, list | tuple) else type(parts).__name__
        example = "such as data.by_user(users)"
        raise ValueError(f"parts must be a list with an array of sample numbers for each client, {example}, got {got}")
    for client, part in enumerate(parts):
        if not isinstance(getattr(part, "dtype", None), np.dtype):
            raise ValueError(f"parts[{client}] must be an array of sample numbers, got {type(part).__name__}")
        if part.ndim != 1 or not part.size or not np.issubdtype(part.dtype, np.integer):
            raise ValueError(f"parts[{client}] must be 1-d integers, not empty, got {part.dtype} {part.shape}")
        if part.min() < 0 or part.max() >= num_samples:
            raise ValueError(f"parts[{client}] must be sample numbers from 0 to {num_samples - 1}")
    _look_at_the_last(parts, num_samples)


def _check_clients(clients: Any, num_clients: int) -> None:
    if not isinstance(clients, slice) or not range(num_clients)[clients]:
        raise ValueError(
            f"clients must be a slice with at least one of {num_clients} clients, such as slice(0, 1), got {clients!r}"
        )


def _look_at_the_last(parts: Sequence[np.ndarray], num_samples: int) -> None:
    """Parts of all samples up to one, and of none after it, may come of a column that is too short."""
    used = np.zeros(num_samples, bool)
    for part in parts:
        used[part] = True
    first = int(used.sum())
    if first < num_samples and used[:first].all():
        warnings.warn(
            f"parts hold the first {first} of {num_samples} samples and leave out the rest: a column that was split is "
            f"too short, or pass examples[:{first}]",
            stacklevel=4,
        )

"""Samples of a PyTorch `Dataset`, as arrays."""

from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import PyTree


@runtime_checkable
class MapStyle(Protocol):
    """What a map-style `torch.utils.data.Dataset` is: a length and items by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, item: int, /) -> Any: ...


def stacked_examples(dataset: MapStyle) -> PyTree:
    """All samples of a map-style PyTorch dataset, stacked: each leaf of an item becomes an array `[N, ...]`.

    It reads every sample once, in order, so random augmentation is drawn once and for all. Python floats and float64
    become float32. What it returns fits `data.stack_clients`. PyTorch need not be installed.

    Args:
      dataset: items are pytrees, such as `(image, label)`, of tensors, arrays or numbers, all of the same structure.

    Raises:
      ValueError: the dataset has no length or no items by number, is empty, or an item has other shapes or another
        structure than the first.

    Examples:
      >>> images, labels = stacked_examples([(np.zeros((2, 2)), 1), (np.ones((2, 2)), 0)])
      >>> images.shape, images.dtype.name, labels.tolist()
      ((2, 2, 2), 'float32', [1, 0])
    """
    if not isinstance(dataset, MapStyle):
        raise ValueError(f"dataset must have a length and items by number, got {type(dataset).__name__}")
    if not len(dataset):
        raise ValueError("dataset must have at least one sample, got none")
    items = [jax.tree.map(np.asarray, dataset[i]) for i in range(len(dataset))]
    shapes = jax.tree.map(np.shape, items[0])
    for number, item in enumerate(items):
        if jax.tree.structure(item) != jax.tree.structure(items[0]) or jax.tree.map(np.shape, item) != shapes:
            found = jax.tree.map(np.shape, item)
            raise ValueError(f"dataset must have samples of one shape, {shapes} as the first, got {found} at {number}")

    def stacked(*rows: np.ndarray) -> np.ndarray:
        whole = np.stack(rows)
        return whole.astype(np.float32) if np.issubdtype(whole.dtype, np.floating) else whole

    return jax.tree.map(stacked, *items)

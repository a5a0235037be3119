"""Label flipping: Byzantine clients train honestly on wrong labels."""

import numpy as np
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import ClientData


def flip_labels(data: ClientData, byzantine: int | Array | np.ndarray, num_classes: int) -> ClientData:
    """The same data with `num_classes - 1 - y` for the labels `y` of Byzantine clients; a NumPy array remains one.

    Args:
      data: examples are a pair (x, y) with integers y `[n, m]` from 0 to `num_classes - 1`.
      byzantine: how many clients, the first ones, or which, bool `[n]`.
      num_classes: at least 2.

    Raises:
      ValueError: `byzantine` or `num_classes` outside its range, or data of another form.
    """
    _validate.integer(at_least=2, num_classes=num_classes)
    if not isinstance(data.examples, tuple) or len(data.examples) != 2:
        raise ValueError("data must have a pair (x, y) as examples")
    x, y = data.examples
    if isinstance(y, np.ndarray) and y.size and y.max() >= num_classes:
        raise ValueError(f"num_classes must be above the largest label, {y.max()}, got {num_classes}")
    flips = _mask(byzantine, len(y)).astype(y.dtype).reshape(-1, *[1] * (y.ndim - 1))
    return data._replace(examples=(x, y + flips * (num_classes - 1 - 2 * y)))


def _mask(byzantine: int | Array | np.ndarray, n: int) -> Array | np.ndarray:
    if isinstance(byzantine, int):
        _validate.integer(at_least=0, byzantine=byzantine)
        return np.arange(n) < byzantine
    if byzantine.shape != (n,) or byzantine.dtype != bool:
        raise ValueError(f"byzantine must be a number or a mask [{n}], got {byzantine.dtype} {byzantine.shape}")
    return byzantine

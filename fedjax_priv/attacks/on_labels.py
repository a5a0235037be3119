"""Label flipping: Byzantine clients train honestly on wrong labels."""

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import ClientData
from fedjax_priv.base.byzantine_clients import Byzantine, byzantine_mask


def flip_labels(data: ClientData, byzantine: Byzantine, num_classes: int) -> ClientData:
    """Replaces the labels `y` of Byzantine clients by `num_classes - 1 - y`; a NumPy array stays one.

    Args:
      data: examples are a pair (x, y) with integer labels y `[n, m]` from 0 to `num_classes - 1`.
      byzantine: how many clients, counted from client 0, or a mask, bool `[n]`.
      num_classes: at least 2.

    Raises:
      ValueError: `byzantine` or `num_classes` is out of range, or `data` has another form; labels that are traced may
        have any value.

    Examples:
      >>> samples = (np.zeros((4, 1), np.float32), np.array([0, 1, 0, 1]))
      >>> data = fedjax_priv.data.stack_clients(samples, [np.array([0, 1]), np.array([2, 3])])
      >>> print(flip_labels(data, byzantine=1, num_classes=10).examples[1])
      [[9 8]
       [0 1]]
    """
    _validate.integer(at_least=2, num_classes=num_classes)
    x, y = labelled(data)
    _check_classes(y, num_classes)
    fits_labels(y, num_classes=num_classes, above=1)
    flips = byzantine_mask(len(y), byzantine=byzantine).astype(y.dtype).reshape(-1, *[1] * (y.ndim - 1))
    return data._replace(examples=(x, y + flips * (num_classes - 1 - 2 * y)))


def _check_classes(y: Array | np.ndarray, num_classes: int) -> None:
    """Raises ValueError unless labels are integers and, where they are known, those of so many classes."""
    if not jnp.issubdtype(y.dtype, jnp.integer):
        raise ValueError(f"data.examples must have integer labels, got {y.dtype}")
    if isinstance(y, Tracer) or not y.size:
        return
    least, largest = int(y.min()), int(y.max())
    if least < 0:
        raise ValueError(f"data.examples must have labels from 0, got {least}")
    if largest >= num_classes:
        raise ValueError(f"num_classes must be above the largest label, {largest}, got {num_classes}")


def labelled(data: ClientData) -> tuple:
    """Inputs and labels; ValueError if this is no data of clients, or the examples are no pair."""
    _validate.part(ClientData, "data.federate(...)", data=data)
    if not isinstance(data.examples, tuple) or len(data.examples) != 2:
        raise ValueError(f"data.examples must be a pair (x, y), got {type(data.examples).__name__}")
    return data.examples


def fits_labels(y: Array | np.ndarray, *, above: int = 0, **values: int) -> None:
    """Raises ValueError for a value that is no label of the kind of `y`, nor `above` the largest."""
    if not jnp.issubdtype(y.dtype, jnp.integer):
        return
    most = int(jnp.iinfo(y.dtype).max) + above
    for name, value in values.items():
        if value > most:
            raise ValueError(f"{name} must be at most {most} for {y.dtype} labels, got {value}")

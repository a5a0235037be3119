"""Which clients of a population are Byzantine: so many of the first, or those of a mask."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from fedjax_priv import _validate

Byzantine = int | np.integer | np.ndarray | Array
"""Byzantine clients of a population: how many, counted from client 0, or which, a bool mask `[n]`."""


def check_byzantine(population: int | None = None, **values: Byzantine) -> None:
    """Integers from 0 to `population`, or bool masks of it; None: the population is not known yet.

    Raises:
      ValueError: a value is neither.
    """
    for name, value in values.items():
        if isinstance(value, np.ndarray | Array):
            _check_mask(population, "an integer >= 0 or ", name, value)
        elif _validate.integer(at_least=0, **{name: value}) > (np.inf if population is None else population):
            raise ValueError(f"{name} must be an integer from 0 to {population}, got {value}")


def check_mask(population: int, **masks: np.ndarray | Array) -> None:
    """Bool masks of the population, or of rows.

    Raises:
      ValueError: a value is none.
    """
    for name, mask in masks.items():
        _check_mask(population, "", name, mask)


def _check_mask(population: int | None, otherwise: str, name: str, mask: np.ndarray | Array) -> None:
    kind, shape = str(getattr(mask, "dtype", type(mask).__name__)), np.shape(mask)
    if kind != "bool" or len(shape) != 1 or population not in (None, *shape):
        size = "clients" if population is None else population
        raise ValueError(f"{name} must be {otherwise}a bool mask of shape ({size},), got {kind} {shape}")


def are_byzantine(
    client: Int[Array, " k"] | Int[np.ndarray, " k"], population: int, **byzantine: Byzantine
) -> Bool[Array, " k"] | Bool[np.ndarray, " k"]:
    """Which of these clients are; `byzantine` is one argument, by its name.

    Raises:
      ValueError: it is not as `check_byzantine` says.
    """
    check_byzantine(population, **byzantine)
    (value,) = byzantine.values()
    if isinstance(value, np.ndarray | Array):
        return value[client] if isinstance(client, np.ndarray) else jnp.asarray(value)[client]
    return client < int(value)


def byzantine_mask(population: int, **byzantine: Byzantine) -> Bool[Array, " n"] | Bool[np.ndarray, " n"]:
    """Which clients of the population are, as of `are_byzantine`."""
    return are_byzantine(np.arange(population), population, **byzantine)


def how_many(byzantine: Byzantine) -> int:
    """Byzantine clients of the population, which may all be in one cohort."""
    return int(np.sum(byzantine))

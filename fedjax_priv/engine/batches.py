"""Many rows, some of them side by side."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree


def in_batches(of_row: Callable[[PyTree], PyTree], rows: PyTree, at_once: int) -> PyTree:
    """`of_row` of each row, at most `at_once` of them side by side, in one program.

    All batches have one size, so that only one is compiled, where `jax.lax.map` compiles a remainder as well; the last
    batch computes rows of the one before again.

    Args:
      of_row: a function of one row, arrays `[...]`.
      rows: arrays `[r, ...]`, r >= 1.
      at_once: >= 1.

    Returns:
      Arrays `[r, ...]`.

    Examples:
      >>> print(in_batches(lambda x: 10 * x, np.arange(3), 2))
      [ 0 10 20]
    """
    number = jax.tree.leaves(rows)[0].shape[0]
    if number <= at_once:
        return jax.vmap(of_row)(rows)
    size = -(-number // -(-number // at_once))
    starts = np.minimum(np.arange(0, number, size), number - size)
    part = lambda row, start: jax.lax.dynamic_slice_in_dim(row, start, size)
    found = jax.lax.map(lambda start: jax.vmap(of_row)(jax.tree.map(lambda row: part(row, start), rows)), starts)
    return jax.tree.map(lambda batches: joined(batches, number), found)


def joined(batches: Array, number: int) -> Array:
    """`[batches, size, ...] -> [number, ...]`, without the rows that the last batch shares with the one before."""
    count, size = batches.shape[:2]
    flat = batches.reshape(count * size, *batches.shape[2:])
    twice = count * size - number
    return jnp.concatenate([flat[: (count - 1) * size], flat[(count - 1) * size + twice :]]) if twice else flat

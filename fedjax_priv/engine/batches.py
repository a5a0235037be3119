"""Many rows, some of them side by side."""

from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import PyTree


def in_batches(of_row: Callable[[PyTree], PyTree], rows: PyTree, at_once: int) -> PyTree:
    """`of_row` of each row, at most `at_once` of them side by side, in one program.

    All batches have one size, so that only one is compiled, where `jax.lax.map` compiles a remainder as well; the last
    row is computed again to fill the last batch.

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
    filled = np.minimum(np.arange(-(-number // size) * size), number - 1)
    found = jax.lax.map(of_row, jax.tree.map(lambda row: row[filled], rows), batch_size=size)
    return jax.tree.map(lambda row: row[:number], found)

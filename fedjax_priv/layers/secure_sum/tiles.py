"""Users in tiles: as many side by side as fit, and no work for tiles in which nobody asks for any."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, PyTree


def in_tiles(tile: Callable[[PyTree], PyTree], rows: PyTree, busy: Bool[Array, " c"], tall: int) -> PyTree:
    """`tile(rows)`, computed on `tall` rows at a time or somewhat fewer.

    Args:
      tile: `[t, ...] -> [t, ...]`, row by row.
      rows: pytree of arrays `[c, ...]`.
      busy: which rows need work; others may be zeros. They share tiles, and a tile of them is skipped.
      tall: most rows of a tile.
    """

    def one(part: tuple) -> PyTree:
        busy, rows = part
        nothing = lambda rows: jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(tile, rows))
        return lax.cond(busy.any(), tile, nothing, rows)

    users = len(busy)
    tiles = -(-users // tall)
    if tiles == 1:
        return one((busy, rows))
    tall = -(-users // tiles)
    order = jnp.argsort(~busy) if tall > 1 else jnp.arange(users)

    def cut(a: Array) -> Array:
        missing = [(0, tiles * tall - users), *[(0, 0)] * (a.ndim - 1)]
        return jnp.pad(a[order], missing).reshape(tiles, tall, *a.shape[1:])

    back = jnp.argsort(order)
    results = lax.map(one, jax.tree.map(cut, (busy, rows)))
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[back], results)

"""Order statistics of each column, by sorting networks.

XLA's sort along a major axis is slow on a CPU; a network of minima and maxima on blocks of columns is one loop of
vector instructions.
"""

from collections.abc import Iterator

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fedjax_priv.aggregators.numerics.column_blocks import MOST_UNROLLED, dot, map_columns


def mean_of_ranks(
    rows: Float[Array, "g d"], ok: Bool[Array, " g"], low: Int[Array, ""], high: Int[Array, ""]
) -> Float[Array, " d"]:
    """For each column, the mean of the order statistics `low` to `high - 1` (from 0) of the rows in `ok`.

    NaN counts as the largest value.
    """
    rank = jnp.arange(len(rows))
    wanted = (low <= rank) & (rank < high)
    total = _total_unrolled if len(rows) <= MOST_UNROLLED else _total_in_layers

    def mean(block: Array) -> Array:
        known = jnp.where(ok[:, None] & ~jnp.isnan(block), block, jnp.inf)
        return total(known, wanted) / (high - low).astype(block.dtype)

    return map_columns(mean, rows)


def _total_unrolled(rows: Array, wanted: Array) -> Array:
    ordered = list(rows)
    for i, j in comparators(len(ordered)):
        ordered[i], ordered[j] = _exchange(ordered[i], ordered[j])
    zero = jnp.zeros_like(ordered[0])
    return sum((jnp.where(wanted[i], row, zero) for i, row in enumerate(ordered)), start=zero)


def comparators(n: int) -> Iterator[tuple[int, int]]:
    """Batcher's merge exchange for any number of values (Knuth, The Art of Computer Programming 3, 5.2.2 M)."""
    top = 1 << max((n - 1).bit_length() - 1, 0)
    p = top
    while p:
        q, r, d = top, 0, p
        while True:
            yield from ((i, i + d) for i in range(n - d) if i & p == r)
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2


def _total_in_layers(rows: Array, wanted: Array) -> Array:
    num_rows = len(rows)
    size = 1 << (num_rows - 1).bit_length()
    ordered = _bitonic(jnp.pad(rows, ((0, size - num_rows), (0, 0)), constant_values=jnp.inf))[:num_rows]
    return dot(wanted.astype(rows.dtype), jnp.where(wanted[:, None], ordered, 0.0))


def _bitonic(rows: Array) -> Array:
    """Sorts each column; the number of rows is a power of two (Batcher 1968)."""
    num_rows, num_columns = rows.shape  # reshape infers no size from an empty block
    run = 2
    while run <= num_rows:
        pairs = rows.reshape(num_rows // run, 2, run // 2, num_columns)
        low, high = _exchange(pairs[:, 0], pairs[:, 1, ::-1])
        rows = jnp.stack([low, high[:, ::-1]], 1).reshape(rows.shape)
        step = run // 2
        while step > 1:
            pairs = rows.reshape(num_rows // step, 2, step // 2, num_columns)
            rows = jnp.stack(_exchange(pairs[:, 0], pairs[:, 1]), 1).reshape(rows.shape)
            step //= 2
        run *= 2
    return rows


def _exchange(a: Array, b: Array) -> tuple[Array, Array]:
    first = a < b  # jnp.minimum and jnp.maximum also test for NaN
    return jnp.where(first, a, b), jnp.where(first, b, a)

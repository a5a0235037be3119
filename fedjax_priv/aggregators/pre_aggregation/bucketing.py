"""Averages random buckets of rows."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators.pre_aggregation.pre_aggregator import PreAggregator
from fedjax_priv.base import Key


def bucketing(size: int) -> PreAggregator:
    """Averages the `M` rows present in random buckets of `size` (Karimireddy et al. 2022).

    `ceil(M / size)` rows remain; the last bucket is smaller if `size` does not divide `M`. A row that is not finite
    corrupts only its own bucket.

    Args:
      size: rows in a bucket.

    Raises:
      ValueError: `size` is not an integer >= 1.

    Examples:
      >>> rule = pre_aggregated(bucketing(2), mean())
      >>> print(rule([[1.0], [2.0], [3.0], [4.0]], key=jax.random.key(0)))
      [2.5]
    """
    _validate.integer(size=size)

    def apply(key: Key, rows: Array, ok: Array) -> tuple[Array, Array]:
        num_rows = len(rows)
        num_buckets = -(-num_rows // size)
        order = jnp.argsort(jax.random.permutation(key, num_rows) + jnp.where(ok, 0, num_rows))
        place = jnp.arange(num_buckets * size).reshape(num_buckets, size)  # present rows come first
        there = place < ok.sum()
        member = order[jnp.minimum(place, num_rows - 1)]
        zero = jnp.zeros((), rows.dtype)
        parts = (jnp.where(there[:, i, None], rows[member[:, i]], zero) for i in range(size))
        count = there.sum(1)
        return sum(parts, start=zero) / jnp.maximum(count, 1).astype(rows.dtype)[:, None], count > 0

    return PreAggregator(apply, lambda num_rows: num_rows, lambda num_rows: -(-num_rows // size), equivariant=True)

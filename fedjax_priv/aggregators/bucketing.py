"""Means of random buckets of rows."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators._columns import mix, norms
from fedjax_priv.aggregators.pre_aggregated import PreAggregator
from fedjax_priv.base import Key


def bucketing(size: int) -> PreAggregator:
    """Means of each `size` of the `M` rows that are there, in random order (Karimireddy et al. 2022, Algorithm 1).

    `ceil(M / size)` rows are left, the last one a mean of fewer where `size` does not divide `M`. A row that is not
    finite makes its bucket NaN, and no other.

    Raises:
      ValueError: `size` is not a positive integer.
    """
    _validate.integer(size=size)

    def apply(key: Key, rows: Array, ok: Array) -> tuple[Array, Array]:
        num_rows = len(rows)
        place = jnp.argsort(jax.random.permutation(key, num_rows) + jnp.where(ok, 0, num_rows))
        return in_buckets(rows, ok, jnp.argsort(place) // size, -(-num_rows // size))

    return PreAggregator(apply, lambda num_rows: num_rows, lambda num_rows: -(-num_rows // size))


def in_buckets(rows: Array, ok: Array, bucket: Array, num_buckets: int) -> tuple[Array, Array]:
    """Means of the rows of each bucket, and whether it has any."""
    members = (bucket[None, :] == jnp.arange(num_buckets)[:, None]) & ok[None, :]
    count = members.sum(1)
    weights = members.astype(rows.dtype) / jnp.maximum(count, 1).astype(rows.dtype)[:, None]
    return mix(weights, rows, jnp.isfinite(norms(rows)) & ok), count > 0

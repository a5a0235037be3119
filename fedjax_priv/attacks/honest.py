"""What an omniscient attacker computes from the honest rows alone."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fedjax_priv.rows import rows_where


def honest_mean(updates: Float[Array, "n d"], honest: Bool[Array, " n"]) -> Float[Array, "1 d"]:
    """Mean of the honest rows; 0 where there are none."""
    return _sum(honest, updates) / jnp.maximum(honest.sum(), 1).astype(updates.dtype)


def honest_std(updates: Float[Array, "n d"], honest: Bool[Array, " n"], ddof: int = 0) -> Float[Array, "1 d"]:
    """Standard deviation of the honest rows by coordinate, over their number less `ddof`; 0 where that is none."""
    squares = _sum(honest, jnp.square(updates - honest_mean(updates, honest)))
    return jnp.sqrt(squares / jnp.maximum(honest.sum() - ddof, 1).astype(updates.dtype))


def honest_row(honest: Bool[Array, " n"], rank: Int[Array, "*k"]) -> Int[Array, "*k"]:
    """Number of the row that has `rank` among the honest ones, in order; of the last of them if there are fewer."""
    found = jnp.cumsum(honest)
    return jnp.searchsorted(found, jnp.minimum(rank + 1, found[-1]))


def _sum(honest: Array, rows: Array) -> Array:
    # on a CPU a product with ones is faster than a reduction
    rows = rows_where(honest, rows, jnp.zeros((), rows.dtype))
    return jnp.matmul(jnp.ones((1, len(rows)), rows.dtype), rows, precision="highest")

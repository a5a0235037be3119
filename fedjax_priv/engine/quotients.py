"""Quotients of rows by a number that have the same bits in every block of clients.

XLA turns `rows / number` into a product with the reciprocal, which may differ in the last bit, but not where a block or
a device has one row. Results would then depend on the block and on the number of devices.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float


def quotient(rows: Float[Array, "*b"], number: ArrayLike) -> Float[Array, "*b"]:
    """`rows` times the rounded reciprocal of `number`: within 1.5 units in the last place of their quotient.

    Args:
      rows: float32, one or more numbers of each client.
      number: what all are divided by, or `[b, 1]`, a number for each row.

    Examples:
      >>> print(quotient(jnp.array([1.0, 3.0]), 4.0))
      [0.25 0.75]
    """
    return rows * jax.lax.optimization_barrier(1 / jnp.asarray(number, rows.dtype))

"""Products that are rounded before anything is added to them, in every block of clients.

A compiler may compute `a * b + c` with one rounding where a block has one client, and with two where it has several.
Results would then depend on the block.
"""

import jax
from jaxtyping import Array, Float, Int


def rounded_product(values: Float[Array, "b d"], client: Int[Array, " b"]) -> Float[Array, "b d"]:
    """The same numbers, which no compiler fuses with a sum that they go into.

    Args:
      values: of each client of a block, a product or what may become one.
      client: numbers of the clients, >= 0. The compiler does not know that, so it cannot undo the detour.

    Examples:
      >>> print(rounded_product(jnp.array([[1.5, -0.0]]), client=jnp.array([3])))
      [[ 1.5 -0. ]]
    """
    zero = (client[0] < 0).astype(f"uint{8 * values.dtype.itemsize}")
    return jax.lax.bitcast_convert_type(jax.lax.bitcast_convert_type(values, zero.dtype) ^ zero, values.dtype)

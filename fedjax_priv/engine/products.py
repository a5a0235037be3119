"""Products that are rounded before anything is added to them, in every block of clients.

A compiler may compute `a * b + c` with one rounding where a block has one client, and with two where it has several.
Results would then depend on the block.
"""

import jax
from jaxtyping import Array, Float, UInt32

from fedjax_priv.base import Key


def unknown_zero(key: Key) -> UInt32[Array, ""]:
    """0, which no compiler knows to be 0, from a key that is no constant."""
    return zero_of(jax.random.key_data(key).reshape(-1)[-1])


def zero_of(word: UInt32[Array, ""]) -> UInt32[Array, ""]:
    """0, which no compiler knows to be 0: the last bit of `w (w + 1)`, w a word that is no constant."""
    return (word * (word + word.dtype.type(1))) & word.dtype.type(1)


def rounded_product(values: Float[Array, "b d"], key: Key) -> Float[Array, "b d"]:
    """The same numbers, which no compiler fuses with a sum that they go into.

    Args:
      values: of each client of a block, float32: a product, or what may become one.
      key: any; no draw is made from it.

    Examples:
      >>> print(rounded_product(jnp.array([[1.5, -0.0]]), jax.random.key(0)))
      [[ 1.5 -0. ]]
    """
    return rounded(values, unknown_zero(key))


def rounded(values: Float[Array, "*shape"], zero: UInt32[Array, ""]) -> Float[Array, "*shape"]:
    """The same numbers, float32, rounded before anything is added to them. `zero` is 0, which no compiler knows."""
    return jax.lax.bitcast_convert_type(jax.lax.bitcast_convert_type(values, zero.dtype) ^ zero, values.dtype)

"""Integers modulo a power of two: uploads of as many bits as the sum needs.

Sums that can be taken so: `plain_ring`, `pairwise_masks` (SecAgg, SecAgg+, by group too) and `enrolled_masks` (CDP-FL).
All add every coordinate of every upload. `sparse_masks` cannot: clients send different coordinates, so a coordinate's
noise is that of an unknown number of clients, perhaps of one, and what a client does not send cannot be rotated back.
"""

from jaxtyping import Array, Int32, UInt32

from fedjax_priv.base import Cohort, Key, Layer, Received
from fedjax_priv.crypto.modulus import centred, ring, wrapped
from fedjax_priv.layers.stacking import stateless


def wrap(bits: int) -> Layer:
    """`x mod 2**bits` of int32 `[b, d]`, decoded to the int32 in [-2**(bits-1), 2**(bits-1)) congruent to the sum.

    Stands above `plain_ring(bits)` or a secure sum with the same `bits`. A sum outside that range wraps, and nobody is
    told: its error is a multiple of 2**bits. Choose the grid so that this is rare
    (`theory.discrete_gaussian.grid_step`). No value of one client can make a round fail.

    Args:
      bits: B, from 2 to 32.

    Raises:
      ValueError: `bits` is no integer from 2 to 32.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> print(wrap(8).encode(jax.random.key(0), (), (), jnp.array([[-1, 256, 5]]), cohort_of(1))[0])
      [[255   0   5]]
    """
    bits = ring(bits).bits

    def encode(key: Key, x: Int32[Array, "b d"], cohort: Cohort) -> UInt32[Array, "b d"]:
        del key, cohort
        return wrapped(x, bits)

    def decode(received: Received) -> Received:
        return received._replace(value=centred(received.value, bits))

    return stateless(encode, decode)

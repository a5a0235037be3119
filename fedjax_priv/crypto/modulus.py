"""Where uploads and masks are added: the field F_q, or the integers modulo a power of two.

A secure sum needs addition and masks that are uniform, no products: Z_{2**bits} does as well as F_q, and its elements
are as short as the sum allows. Only shares of secrets need a field; they stay in F_q.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt32

from fedjax_priv import _validate
from fedjax_priv.crypto import field, prg


class Modulus(NamedTuple):
    """A group in which uploads are added. Elements are uint32 in [0, size)."""

    size: int
    bits: int  # of an element on the wire
    complement: np.uint32  # size - w = ~w - complement, modulo `size` or 2**32
    add: Callable[..., Array]
    neg: Callable[..., Array]
    sum: Callable[..., Array]  # (elements or uint32 that stand for them, axis) -> elements
    expand: Callable[..., Array]  # as `prg.expand`: (seed, purpose, round, d, prg) -> elements [d]

    def sub(self, a: Array, b: Array) -> Array:
        """a - b."""
        return self.add(a, self.neg(b))


FIELD = Modulus(int(field.Q), 32, np.uint32(4), field.add, field.neg, field.sum, prg.expand)
"""F_q."""


def ring(bits: int) -> Modulus:
    """The integers modulo 2**bits.

    Words of 32 bits wrap by themselves, so sums of any uint32 that stand for elements are right once the lowest bits
    are kept. A mask is the lowest bits of a word: exactly uniform if the word is.

    Args:
      bits: B, from 2 to 32.

    Raises:
      ValueError: `bits` is no integer from 2 to 32.
    """
    bits = _validate.integer(at_least=2, bits=bits)
    if bits > 32:
        raise ValueError(f"bits must be at most 32, the length of a word, got {bits}")
    return _ring(bits)


@functools.lru_cache(maxsize=32)
def _ring(bits: int) -> Modulus:
    low = np.uint32(2**bits - 1)
    return Modulus(
        2**bits, bits, np.uint32(2**32 - 1),
        add=lambda a, b: (a + b) & low,
        neg=lambda a: (jnp.uint32(0) - a) & low,
        sum=lambda a, axis=0: jnp.sum(a, axis, dtype=jnp.uint32) & low,
        expand=lambda seed, purpose, round, d, prg: prg.words(seed, purpose, round, d) & low,
    )  # fmt: skip


def wrapped(z: Int32[Array, "..."], bits: int) -> UInt32[Array, "..."]:
    """z modulo 2**bits, an element of `ring(bits)`."""
    return z.astype(jnp.uint32) & np.uint32(2**bits - 1)


def centred(a: UInt32[Array, "..."], bits: int) -> Int32[Array, "..."]:
    """The integer in [-2**(bits-1), 2**(bits-1)) that is congruent to an element of `ring(bits)`."""
    return (a << np.uint32(32 - bits)).astype(jnp.int32) >> (32 - bits)

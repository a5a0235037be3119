"""Diffie-Hellman in the multiplicative group of F_q, inside jit, on several limbs at once.

SIMULATION-GRADE: it has the messages, sizes and algebra of a key agreement but no security. A laptop takes a discrete
logarithm modulo a 32-bit prime in less than a second, and each limb can be attacked separately. `crypto.x25519` is a
real key agreement.

A secret is two exponents, or eight where seeds have 256 bits; they are field elements, so Shamir's scheme can share
each as it is.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, UInt32

from fedjax_priv.base import Key
from fedjax_priv.crypto import field, prg

GENERATOR = np.uint32(2)
"""A primitive root of q."""

_EXPONENTS = field.Q - np.uint32(2)


def secret_key(key: Key) -> UInt32[Array, "2"]:
    """Two exponents uniform on 1 .. q - 2, within 2**-58 in total variation. Public key 1, from 0, does not occur."""
    return exponents(*jax.random.bits(key, (2, 2), jnp.uint32))


def exponents(word: UInt32[Array, "*n"], spare: UInt32[Array, "*n"]) -> UInt32[Array, "*n"]:
    """Exponents as `secret_key` has them, from two random words each."""
    return np.uint32(1) + jnp.where(word < _EXPONENTS, word, spare % _EXPONENTS)


def public_key(secret: UInt32[Array, "*n w"]) -> UInt32[Array, "*n w"]:
    """2 ** secret, limb by limb."""
    return field.power(GENERATOR, secret)


WINDOW = 4
"""Bits of an exponent that one multiplication covers."""


def directory(public: UInt32[Array, "n w"]) -> UInt32[Array, "v e w n"]:
    """Powers of all public keys: entry `[v, e]` is `public**(e 16**v)`.

    With them a seed takes 8 multiplications a limb; square and multiply takes 64.
    """
    squares = lax.scan(lambda power, _: (field.mul(power, power), power), public.T, length=32)[1]
    squares = squares.reshape(-1, WINDOW, *public.T.shape)
    entries = jnp.ones_like(squares[:, :1])
    for bit in range(WINDOW):
        entries = jnp.concatenate([entries, field.mul(entries, squares[:, bit, None])], 1)
    return entries


def shared_seeds(
    secret: UInt32[Array, "*b w"], powers: UInt32[Array, "v e w n"], peer: Int[Array, "*b m"]
) -> UInt32[Array, "*b m w"]:
    """The seeds a user has in common with others, of as many elements as a key: either user computes them.

    Args:
      secret: of each user.
      powers: the `directory` of all public keys.
      peer: the others' rows among the public keys.

    The agreed value 2 ** (a b) is not uniform: a b is even three times out of four, and 0 never occurs. So the agreed
    limbs key one call of a generator, in its own domain, whose output is the seed; a real agreement uses HKDF. This
    spreads the entropy evenly over seeds and adds none. Further seeds of a pair need no further agreement: `prg.expand`
    separates purposes.
    """
    limbs = jnp.moveaxis(secret, -1, 0)[..., None]  # XLA vectorises along the last axis
    limb = jnp.arange(len(limbs)).reshape(-1, *(1,) * peer.ndim)

    def times_one_window(agreed: Array, window: tuple[Array, Array]) -> tuple[Array, None]:
        entries, shift = window
        return field.mul(agreed, entries[(limbs >> shift) & np.uint32(2**WINDOW - 1), limb, peer[None]]), None

    shifts = jnp.arange(0, 32, WINDOW, dtype=jnp.uint32)
    agreed, _ = lax.scan(times_one_window, jnp.ones((len(limbs), *peer.shape), jnp.uint32), (powers, shifts))
    return jnp.moveaxis(prg.expand(agreed, "pair seed", 0, len(agreed)), 0, -1)

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
from jaxtyping import Array, UInt32

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


def shared_seeds(secret: UInt32[Array, "*n w"], public: UInt32[Array, "*n m w"]) -> UInt32[Array, "*n m w"]:
    """The seeds a user has in common with others, of as many elements as a key: either user computes them.


    The agreed value 2 ** (a b) is not uniform: a b is even three times out of four, and 0 never occurs. So the agreed
    limbs key one call of a generator, in its own domain, whose output is the seed; a real agreement uses HKDF. This
    spreads the entropy evenly over seeds and adds none. Further seeds of a pair need no further agreement: `prg.expand`
    separates purposes.
    """
    public, secret = (jnp.moveaxis(a, -1, 0) for a in (public, secret))  # XLA vectorises along the last axis
    agreed = field.power(public, secret[..., None])
    return jnp.moveaxis(prg.expand(agreed, "pair seed", 0, len(agreed)), 0, -1)

"""Commitments to secrets of which only a sum is opened, so that a garbled answer costs the sum and corrupts none."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt32

from fedjax_priv.base import Link
from fedjax_priv.crypto.digest import digest
from fedjax_priv.status import Status

BITS = 64
"""Of a commitment: two field elements."""


def committed(secret: UInt32[Array, "b k"]) -> UInt32[Array, "b 2"]:
    """Ideal commitments that add as what they commit to: only a sum of them is ever opened.

    The server keeps those of all clients, and compares the sum over the survivors with the sum of secrets that answers
    give it. A deployment has such commitments from groups in which logarithms are hard (Pedersen 1991), which hide and
    bind by that; here they are linear hashes, which do neither, so the simulated server is given their sum alone.
    """
    return jax.vmap(digest)(secret)


def sending(selected: Bool[Array, " n"]) -> Link:
    """Bits: each client of the round sends the server one."""
    nothing = jnp.zeros(selected.shape, jnp.uint32)
    return Link(jnp.where(selected, jnp.uint32(BITS), nothing), nothing)


def status(secret: UInt32[Array, " k"], commitment: UInt32[Array, " 2"], enough: Bool[Array, ""]) -> Int[Array, " 1"]:
    """Of the one group: whether answers that were `enough` gave another sum of secrets than clients committed to."""
    wrong = enough & (digest(secret) != commitment).any()
    return jnp.where(wrong, int(Status.WRONG_SHARES), 0)[None].astype(jnp.int32)

"""What a client hashes of the model it was given, or of the coordinates it sends.

SIMULATION-GRADE: two polynomial hashes over F_q at public points. Different words have the same digest with
probability about d / q at each point, unless someone makes them so: a hash that is linear can be solved for. A
deployment takes SHA-256.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, UInt32

from fedjax_priv.crypto import field

POINTS = np.array([0x9E3779B9, 0x85EBCA77], np.uint32)
"""Where the polynomials are evaluated: two primitive roots of q, so that no two places have the same weight."""
_MINUS_ZERO = np.uint32(1 << 31)
WIDTH = 1024
"""Coefficients that are side by side; it changes no digest."""


def model_digest(params: PyTree) -> UInt32[Array, " 2"]:
    """The digest of a model: of the bits of its numbers as float32, in the order of the tree. -0 is taken as 0.

    Examples:
      >>> one, other = model_digest({"w": jnp.zeros(3)}), model_digest({"w": jnp.array([0.0, 1.0, 0.0])})
      >>> bool((one == other).any())
      False
    """
    words = [jax.lax.bitcast_convert_type(a.astype(jnp.float32), jnp.uint32).ravel() for a in jax.tree.leaves(params)]
    bits = jnp.concatenate(words)
    return digest(jnp.where(bits == _MINUS_ZERO, np.uint32(0), bits))


def digest(words: UInt32[Array, " d"]) -> UInt32[Array, " 2"]:
    """`sum_l w_l p**(d - 1 - l)` modulo q for both points p, of words taken modulo q.

    Examples:
      >>> print(digest(jnp.array([1, 5], jnp.uint32)) - POINTS)
      [5 5]
    """
    rows = -(-words.size // WIDTH)
    front = (rows * WIDTH - words.size, 0)
    blocks = jnp.pad(field.canonical(words), front).reshape(rows, 1, WIDTH)
    step = field.power(POINTS, np.uint32(WIDTH))[:, None]

    def next_block(total: Array, block: Array) -> tuple[Array, None]:
        return field.add(
            field.mul(total, jnp.broadcast_to(step, total.shape)), jnp.broadcast_to(block, total.shape)
        ), None

    total, _ = jax.lax.scan(next_block, jnp.zeros((2, WIDTH), jnp.uint32), blocks)
    down = np.broadcast_to(np.arange(WIDTH, dtype=np.uint32)[::-1], (2, WIDTH))
    return field.sum(field.mul(total, field.power(np.repeat(POINTS[:, None], WIDTH, 1), down)), 1)

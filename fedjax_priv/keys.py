"""Random keys by name, round and client: adding a stage or a client changes no other draw.

A run has one root key; `round -> fold_in(t)`, `stage -> fold_in(name)`, `client -> fold_in(number)`. No state holds a
key, and no factory captures one.
"""

import zlib
from collections.abc import Callable

import jax
from jaxtyping import Array, Int, PyTree

from fedjax_priv.base import Key


def named(key: Key, name: str) -> Key:
    """The key of a named stage, whichever other stages exist."""
    return jax.random.fold_in(key, zlib.crc32(name.encode()) & 0x7FFFFFFF)


def per_client(draw: Callable[[Key], PyTree], key: Key, client: Int[Array, " b"]) -> PyTree:
    """One draw per client, `[b, ...]`, from the client's number: the same in any cohort and block."""
    return jax.vmap(lambda i: draw(jax.random.fold_in(key, i)))(client)

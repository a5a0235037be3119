"""Random keys by name, round and client: adding a stage or a client moves no other draw.

A run has one root key; `round -> fold_in(t)`, `stage -> fold_in(name)`, `client -> fold_in(number)`. No key is kept in
a state or captured by a factory.
"""

import zlib
from collections.abc import Callable

import jax
from jaxtyping import Array, Int, PyTree

from fedjax_priv.base import Key


def named(key: Key, name: str) -> Key:
    """Key of a named stage; it does not depend on which other stages exist."""
    return jax.random.fold_in(key, zlib.crc32(name.encode()) & 0x7FFFFFFF)


def per_client(draw: Callable[[Key], PyTree], key: Key, client: Int[Array, " b"]) -> PyTree:
    """One draw a client, from its number: `[b, ...]`, whatever the cohort or the block it is in."""
    return jax.vmap(lambda i: draw(jax.random.fold_in(key, i)))(client)

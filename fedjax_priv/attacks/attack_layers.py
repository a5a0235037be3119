"""Attacks on updates, and where they sit in a stack of layers."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv.base import Cohort, Key, Layer
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.layers import stateless
from fedjax_priv.layers.sparsification import Sparse

Attack = Callable[[Key, Float[Array, "n d"], Bool[Array, " n"]], Float[Array, "m d"]]
"""`(key, updates [n, d], honest [n]) -> [n, d]` or `[1, d]`: what clients would send if they were Byzantine.

A row depends on the honest rows, all of which an attacker sees, and on its own; values of other rows, finite or not,
make no difference. Every row that is not honest is taken for a Byzantine one. Draws are by row.
"""


def on_updates(attack: Attack) -> Layer:
    """Byzantine clients that take part send what `attack` says, in place of what reaches this layer; `[n, d]`.

    It is placed where what a Byzantine client controls begins: what stands above it in a `stack` such a client does
    honestly, what stands below is done to the row it chose. The layer looks across clients, so the cohort is encoded
    at once. Honest clients send what they would send without it, bit for bit.
    """

    def encode(key: Key, x: Float[Array, "n d"], cohort: Cohort) -> Float[Array, "n d"]:
        sent = attack(key, x, cohort.selected & ~cohort.byzantine)
        return rows_where(cohort.selected & cohort.byzantine, sent, x)

    return stateless(encode, whole=True)


def on_sparse(attack: Attack, num_params: int) -> Layer:
    """`on_updates` below a sparsifier: the attack sees dense rows `[n, d]`; of what it says the k largest are sent.

    Args:
      attack: on dense rows.
      num_params: coordinates of an update, d.
    """

    def encode(key: Key, x: Sparse, cohort: Cohort) -> Sparse:
        rows = jax.vmap(lambda one: jnp.zeros(num_params, one.value.dtype).at[one.position].set(one.value))(x)
        sent = jnp.broadcast_to(attack(key, rows, cohort.selected & ~cohort.byzantine), rows.shape)
        position = jax.lax.top_k(jnp.abs(sent), x.position.shape[1])[1]
        forged = Sparse(jnp.take_along_axis(sent, position, axis=1), position)
        return Sparse(*rows_where(cohort.selected & cohort.byzantine, forged, x))

    return stateless(encode, whole=True)

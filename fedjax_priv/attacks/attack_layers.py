"""Layers that insert an attack on values into a stack."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.layers import stateless
from fedjax_priv.layers.sparsification import Sparse

Attack = Callable[[Key, Float[Array, "n d"], Bool[Array, " n"], Bool[Array, " n"]], Float[Array, "m d"]]
"""`(key, updates [n, d], honest [n], byzantine [n]) -> [n, d]` or `[1, d]`: what each client would send if it were
Byzantine.

Rows of Byzantine clients are what these would send if they were honest. A row may depend on the honest rows, all of
which an attacker sees, and on itself; other rows, finite or not, must make no difference. Attackers that see their own
updates only, as in `min_max(seen="own")`, know all Byzantine rows and no honest one. Rows that are neither honest nor
Byzantine take no part in the round. Draws are by row.
"""


EXAMPLE = "attacks.alie()"


def checked_rows(sent: Any, x: Array) -> Array:
    """What an attack returned, a row for each client or one for all.

    Raises:
      ValueError: it has another shape.
    """
    if (shape := jnp.shape(sent)) not in (x.shape, (1, *x.shape[1:])):
        raise ValueError(f"attack must return rows of shape {x.shape} or {(1, *x.shape[1:])}, got {shape}")
    return sent


def on_updates(attack: Attack) -> Layer:
    """Byzantine clients that take part send what `attack` returns instead of their input to this layer, `[n, d]`.

    Insert it in a stack at the first step a Byzantine client can tamper with: the client follows the layers above
    honestly, and the layers below process the row it chose. The layer looks across clients, so the whole cohort is
    encoded at once. Honest clients send the same bits as without it.

    Raises:
      ValueError: `attack` is no function of four arguments or, when a round is traced, returns another shape.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> cohort = cohort_of(2)._replace(byzantine=jnp.array([False, True]))
      >>> sent, *_ = jax.jit(on_updates(sign_flip()).encode)(jax.random.key(0), (), (), jnp.ones((2, 3)), cohort)
      >>> print(sent)
      [[ 1.  1.  1.]
       [-1. -1. -1.]]
    """
    _validate.function(4, EXAMPLE, attack=attack)

    def encode(key: Key, x: Float[Array, "n d"], cohort: Cohort) -> Float[Array, "n d"]:
        byzantine = cohort.selected & cohort.byzantine
        sent = attack(key, x, cohort.selected & ~cohort.byzantine, byzantine)
        return rows_where(byzantine, checked_rows(sent, x), x)

    return stateless(encode, whole=True)


def on_sparse(attack: Attack, num_params: int) -> Layer:
    """`on_updates` below a sparsifier: the attack sees dense rows `[n, d]`, and the k largest values it returns are
    sent.

    Args:
      attack: on dense rows.
      num_params: coordinates of an update, d.

    Raises:
      ValueError: as `on_updates`.

    Examples:
      >>> layers = fedjax_priv.layers
      >>> attack = on_sparse(foe(), num_params=10)
      >>> send = layers.stack(top=layers.top_k(10, 2), attack=attack, send=layers.plain_sparse(10))
    """
    _validate.function(4, EXAMPLE, attack=attack)

    def encode(key: Key, x: Sparse, cohort: Cohort) -> Sparse:
        rows = jax.vmap(lambda one: jnp.zeros(num_params, one.value.dtype).at[one.position].set(one.value))(x)
        byzantine = cohort.selected & cohort.byzantine
        sent = checked_rows(attack(key, rows, cohort.selected & ~cohort.byzantine, byzantine), rows)
        sent = jnp.broadcast_to(sent, rows.shape)
        position = jax.lax.top_k(jnp.abs(sent), x.position.shape[1])[1]
        forged = Sparse(jnp.take_along_axis(sent, position, axis=1), position)
        return Sparse(*rows_where(byzantine, forged, x))

    return stateless(encode, whole=True)

"""Attacks on the coordinates that Byzantine clients propose in consensus sparsification (FedREP, Figure 4)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv.attacks.honest_statistics import honest_row
from fedjax_priv.base import Key
from fedjax_priv.keys import per_client
from fedjax_priv.layers.consensus_sparsification import CoordinateAttack
from fedjax_priv.layers.coordinate_sets import random_coordinates


def honest_set() -> CoordinateAttack:
    """No attack: the client proposes what an honest one would (noAtk)."""
    return lambda key, updates, proposals, honest: proposals


def smallest() -> CoordinateAttack:
    """The coordinates of smallest magnitude of the client's own update; ties go to the lower one (minAtk)."""
    return lambda key, updates, proposals, honest: jax.lax.top_k(-jnp.abs(updates), proposals.shape[1])[1]


def random_set() -> CoordinateAttack:
    """Uniform distinct coordinates, drawn anew by each client (randAtk)."""

    def attack(key: Key, updates: Array, proposals: Array, honest: Array) -> Array:
        del honest
        (n, d), k = updates.shape, proposals.shape[1]
        return per_client(lambda key: random_coordinates(key, d, k), key, jnp.arange(n))

    return attack


def same_set() -> CoordinateAttack:
    """The proposal of an honest client, drawn anew by each Byzantine client (sameAtk); its own if there is no honest
    one.
    """

    def attack(key: Key, updates: Array, proposals: Array, honest: Array) -> Array:
        del updates
        n, most = len(honest), jnp.maximum(honest.sum(), 1)
        ranks = per_client(lambda key: jax.random.randint(key, (), 0, most), key, jnp.arange(n))
        return jnp.where(honest.any(), proposals[honest_row(honest, ranks)], proposals)

    return attack

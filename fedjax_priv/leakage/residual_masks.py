"""Uploads of honest survivors without the masks the server knows.

It knows the private masks of survivors and the keys of lost clients, which shares reconstruct, the keys of colluding
users, and secrets of which colluders hold enough shares. What remains of an upload at a coordinate is its value plus
the masks `+-b_ij r_ij` with honest surviving peers, if neither end's key is known.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import View
from fedjax_priv.layers.secure_sum import bitmap
from fedjax_priv.layers.secure_sum.circle import peers
from fedjax_priv.layers.secure_sum.masked_sum import Protocol, bound, private_masks
from fedjax_priv.layers.secure_sum.opening import Opened
from fedjax_priv.layers.secure_sum.sharing import Roster
from fedjax_priv.leakage.colluders import Colluders
from fedjax_priv.leakage.known_secrets import KnownSecrets, known_secrets, nobody

BLOCK = 8
"""Number of uploads `[d]` on the device at once."""


class Residuals(NamedTuple):
    """The `k` values honest survivors sent, each under the masks that still hide it, by client and coordinate."""

    coordinate: Int[np.ndarray, " k"]
    client: Int[np.ndarray, " k"]  # place in the cohort
    group: Int[np.ndarray, " k"]  # of the client
    value: UInt32[np.ndarray, " k"]  # an element of `protocol.modulus`
    num_params: int


def residuals(view: View, protocol: Protocol, colluders: Colluders | None = None, layer: str = "mask") -> Residuals:
    """Removes the known masks from the uploads of the honest survivors whose private masks are known.

    It reads `view.uploads`, `view.public` and `view.header`, no secrets and no ground truth. Runs on the host.

    Args:
      view: what the server sees of a round, as kept by `observe=lambda view: view`.
      protocol: public terms of the mask layer.
      colluders: users that tell the server their keys and shares; None: the server alone.
      layer: name of the mask layer.

    Raises:
      ValueError: masks are elided, the system has no such layer, or another kind of layer there, or a colluder's key
        does not match its public key.
    """
    if protocol.elide:
        raise ValueError("protocol must be one whose masks are added, elide=False: elided, uploads are the values")
    _validate.one_of([name for name, one in view.header.items() if isinstance(one, Opened)], layer=layer)
    roster, header = view.public[layer], view.header[layer]
    if colluders is None:
        colluders = nobody(protocol.quorum, roster)
    else:
        _check(protocol, colluders, roster)
    known = _known(protocol.quorum, header, roster, colluders)
    slots = np.flatnonzero(np.asarray(known.target))
    parts = [
        _of_block(protocol, roster, known, header.located, view.uploads, slots[i : i + BLOCK])
        for i in range(0, len(slots), BLOCK)
    ]
    if not parts:
        empty = np.zeros(0, np.int64)
        return Residuals(empty, empty, empty, np.zeros(0, np.uint32), view.uploads.shape[1])
    coordinate, client, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Residuals(coordinate, client, np.asarray(roster.group)[client], value, view.uploads.shape[1])


_known = jax.jit(known_secrets, static_argnums=0)


@functools.partial(jax.jit, static_argnums=0)
def _public_keys(protocol: Protocol, key: Array) -> Array:
    return protocol.quorum.agreement.public_key(key)


def _check(protocol: Protocol, colluders: Colluders, roster: Roster) -> None:
    public = np.asarray(_public_keys(protocol, colluders.key))
    wrong = np.flatnonzero(np.asarray(colluders.member) & (public != np.asarray(roster.key)).any(1))
    if wrong.size:
        raise ValueError(f"colluders.key must match the round's public keys; those of users {wrong.tolist()} do not")


def _of_block(
    protocol: Protocol, roster: Roster, known: KnownSecrets, located: PyTree, uploads: Array, slots: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Coordinates, clients and values of the clients `slots`, where anything was sent."""
    padded = np.resize(slots, BLOCK)
    found = _take_off(protocol, roster, known, padded, uploads, located)
    value, chosen = (np.asarray(a)[: len(slots)] for a in found)
    row, coordinate = np.nonzero(chosen)
    return coordinate, slots[row], value[row, coordinate]


@functools.partial(jax.jit, static_argnums=0)
def _take_off(
    protocol: Protocol, roster: Roster, known: KnownSecrets, slot: Array, uploads: Array, located: PyTree
) -> tuple[UInt32[Array, "b d"], Bool[Array, "b d"]]:
    """Uploads of the clients `slot` without the known masks, and where anything was sent."""
    uploads, located = jax.tree.map(lambda a: a[slot], (uploads, located))
    d = uploads.shape[1]
    seeds, meets, plus = jax.vmap(functools.partial(_known_pairs, protocol, roster, known))(slot)
    seeds = jax.lax.optimization_barrier(seeds)  # as in `pairs_of`
    if protocol.bind_model:
        seeds = bound(protocol, seeds, jnp.repeat(roster.digest[slot][:, None], seeds.shape[1], 1))
    pairs = protocol.expansion.pairs(seeds, meets, plus, roster.round[0], d)
    own = private_masks(protocol, roster, known.seed[slot], d)
    chosen = jnp.ones(uploads.shape, bool)
    if protocol.expansion.located:
        chosen = jax.vmap(lambda words: bitmap.unpack(words, d))(located)
    modulus = protocol.modulus
    return modulus.sub(uploads, modulus.add(own, pairs.mask)), chosen


def _known_pairs(protocol: Protocol, roster: Roster, known: KnownSecrets, slot: Array) -> tuple[Array, Array, Array]:
    """Seeds of one user's pairs, which of them are known, and whose sign is +."""
    near = peers(roster.circle, slot, protocol.quorum.holders)
    peer = near.slot[1:]
    shared_seeds = protocol.quorum.agreement.shared_seeds
    agree = lambda key: shared_seeds(key, roster.directory, slot[None], roster.round[0])[0]
    own = shared_seeds(known.key[slot], roster.directory, peer, roster.round[0])
    seeds = jnp.where(known.of[slot], own, jax.vmap(agree)(known.key[peer]))
    meets = near.there[1:] & (known.of[peer] | known.of[slot])
    return seeds, meets, roster.client[peer] > roster.client[slot]

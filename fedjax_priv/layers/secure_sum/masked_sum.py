"""The exact sum in F_q of masked uploads, whatever the graph and the expansion of the masks.

An upload is `x_i + PRG(s_i)` at the coordinates U_i it selects, `+ sum_{j>i} b_ij r_ij - sum_{j<i} b_ij r_ij` (eq. 18
of SparseSecAgg; with b_ij = 1 it is eq. 9, SecAgg). The server takes out what does not cancel: private masks of
survivors on U_i, pairwise masks between lost users and survivors (eqs. 10 and 21, with the sign of the errata: a
survivor j > i holds -b_ij r_ij for a lost i).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree, UInt32

from fedjax_priv.base import Bits, Cohort, Key, Layer, Received, Sent
from fedjax_priv.crypto import field, key_agreement
from fedjax_priv.crypto.prg import Prg, expand
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.layers.group_sums import field_sum, message_bits, sum_by_group
from fedjax_priv.layers.secure_sum import bitmap, sharing
from fedjax_priv.layers.secure_sum.circle import peers
from fedjax_priv.layers.secure_sum.expansion import Expansion, Pairs
from fedjax_priv.layers.secure_sum.sharing import Opened, Roster, Secrets, Terms
from fedjax_priv.status import Status

ELIDED = "masks were elided: uploads are in the clear; aggregates and bytes are those of the protocol"


class Protocol(NamedTuple):
    """What everybody knows of how uploads are masked before any round; no secret is in it."""

    terms: Terms  # the graph and its thresholds
    expansion: Expansion  # from seeds to pairwise masks
    prg: Prg  # generator of private masks
    elide: bool  # private masks are left out; `expansion` leaves out its own


def masked_sum(protocol: Protocol, num_groups: int) -> Layer:
    """The innermost layer of a secure aggregation of uploads `[b, d]` in F_q.

    Args:
      protocol: how uploads are masked.
      num_groups: groups, each with a secure sum of its own.
    """
    combine, terms = field_sum(num_groups), protocol.terms

    def advertise(key: Key, state: tuple, cohort: Cohort) -> tuple[Secrets, Roster, Bits]:
        del state
        return sharing.open_round(terms, key, cohort)

    def encode(key: Key, private: Secrets, roster: Roster, x: Array, cohort: Cohort) -> tuple[Array, tuple, Sent]:
        del key, cohort
        one = functools.partial(_upload, protocol, roster)
        y, sent = jax.lax.map(lambda row: one(*row), (x, private._replace(shares=())))
        return y, (), sent

    def disclose(private: Secrets, roster: Roster, clear: PyTree, alive: Array, online: Array) -> tuple[Opened, Bits]:
        return sharing.disclose(terms, private, roster, clear, alive, online)

    def decode(header: Opened, roster: Roster, received: Received) -> Received:
        secrets, recovered = sharing.reconstruct(terms, header, roster)
        groups = sum_by_group((recovered & header.alive).astype(jnp.int32), roster.group, num_groups) > 0
        value = received.value
        if not protocol.elide:
            value = field.add(value, _correction(secrets, recovered, header, roster, value.shape[1]))
        return Received(value, jnp.where(groups, received.count, 0))

    def _correction(secrets: Array, recovered: Array, header: Opened, roster: Roster, d: int) -> UInt32[Array, "g d"]:
        """What is left of the masks in each group's sum, negated: a field sum over users, on all devices."""

        def run(shared: tuple, valid: Array, slot: Array, secret: Array, kind: Array, located: PyTree) -> tuple:
            roster, alive = shared
            settle = functools.partial(_settle, protocol, roster, alive, d)
            rows = slot, secret, jnp.where(valid, kind, 0), located
            return combine.lift(jax.lax.map(lambda row: settle(*row), rows), valid, roster.group[slot]), ()

        kind = jnp.where(recovered, jnp.where(header.alive, 1, jnp.where(roster.selected, 2, 0)), 0)
        rows = jnp.arange(kind.size), secrets, kind, header.located
        sums, _ = over_clients(run, (roster, header.alive), rows, block=terms.block, mesh=terms.mesh)
        return combine.lower(sums).value

    caveats = (ELIDED,) if protocol.elide else ()
    return Layer(lambda key, n: (), advertise, encode, disclose, decode, combine, caveats=caveats)


def _upload(protocol: Protocol, roster: Roster, x: Array, private: Secrets) -> tuple[Array, Sent]:
    """One user's message."""
    d, slot = x.size, private.slot
    pairs = pairs_of(protocol, roster, slot, private.key, roster.selected, d)
    own = x if protocol.elide else field.add(private_mask(protocol, roster, private.seed, d), x)
    full = pairs.overflow | sharing.is_crowded(protocol.terms, roster, slot)
    status = jnp.where(full, int(Status.CAP_OVERFLOW), 0)
    if not protocol.expansion.located:
        return field.add(own, pairs.mask), Sent(message_bits(x), status)
    located = bitmap.pack(pairs.chosen)
    bits = jnp.uint32(d) + 32 * jax.lax.population_count(located).sum(dtype=jnp.uint32)
    return field.add(jnp.where(pairs.chosen, own, 0), pairs.mask), Sent(bits, status, located)


def _settle(
    protocol: Protocol, roster: Roster, alive: Array, d: int, slot: Array, secret: Array, kind: Array, located: PyTree
) -> UInt32[Array, " d"]:
    """What the server adds for one user: nothing, a survivor's private mask negated, or a lost user's pairwise ones."""

    def private() -> Array:
        mask = field.neg(private_mask(protocol, roster, secret, d))
        return jnp.where(bitmap.unpack(located, d), mask, 0) if protocol.expansion.located else mask

    return jax.lax.switch(
        kind,
        (
            lambda: jnp.zeros(d, jnp.uint32),
            private,
            lambda: pairs_of(protocol, roster, slot, secret, alive, d).mask,
        ),
    )


def private_mask(protocol: Protocol, roster: Roster, seed: Array, d: int) -> UInt32[Array, " d"]:
    """One user's, on all coordinates; client and server alike."""
    return expand(seed, "private mask", roster.round[0], d, protocol.prg)


def pairs_of(protocol: Protocol, roster: Roster, slot: Int[Array, ""], secret: Array, active: Array, d: int) -> Pairs:
    """One user's pairwise masks with its active peers; client and server alike."""
    near = peers(roster.circle, slot, protocol.terms.holders)
    peer = near.slot[1:]
    # Without the barrier XLA on a CPU agrees on a seed again for each of its words.
    seeds = jax.lax.optimization_barrier(key_agreement.shared_seeds(secret, roster.key[peer]))
    meets, plus = near.there[1:] & active[peer], roster.client[peer] > roster.client[slot]
    return protocol.expansion.pairs(seeds, meets, plus, roster.round[0], d)

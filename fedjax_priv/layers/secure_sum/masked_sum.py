"""The exact sum of masked uploads, in F_q or modulo 2**bits, whatever the graph and the expansion of the masks.

An upload is `x_i + PRG(s_i)` at the coordinates U_i it selects, `+ sum_{j>i} b_ij r_ij - sum_{j<i} b_ij r_ij` (eq. 18
of SparseSecAgg; with b_ij = 1 it is eq. 9, SecAgg). The server takes out what does not cancel: private masks of
survivors on U_i, pairwise masks between lost users and survivors (eqs. 10 and 21, with the sign of the errata: a
survivor j > i holds -b_ij r_ij for a lost i).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree, UInt32

from fedjax_priv.base import ONE_DEVICE, Bits, Cohort, Combine, Key, Layer, Lists, Placement, Received, SecureSum, Sent
from fedjax_priv.crypto.digest import model_digest
from fedjax_priv.crypto.modulus import FIELD, Modulus
from fedjax_priv.crypto.prg import Prg, expand
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.layers.group_sums import element_bits, exact_sum, sum_by_group
from fedjax_priv.layers.secure_sum import bitmap, opening, sharing
from fedjax_priv.layers.secure_sum.circle import peers
from fedjax_priv.layers.secure_sum.expansion import Expansion, Pairs
from fedjax_priv.layers.secure_sum.opening import Opened, Rebuilt
from fedjax_priv.layers.secure_sum.sharing import Quorum, Roster, Secrets
from fedjax_priv.status import Status

ELIDED = "masks were elided: uploads are in the clear; aggregates and bytes are those of the protocol"


class Protocol(NamedTuple):
    """How uploads are masked: what everybody knows before any round. It holds no secret."""

    quorum: Quorum  # the graph and its threshold
    expansion: Expansion  # from seeds to pairwise masks
    prg: Prg  # generator of private masks
    elide: bool  # private masks are left out; `expansion` leaves out its own
    modulus: Modulus = FIELD  # where uploads and masks are added
    bind_model: bool = False  # pairwise masks depend on the model that a user was given


class Seeds(NamedTuple):
    """What users share with their peers, in the order of the circle."""

    peer: Int[Array, "b m"]  # slot
    seed: UInt32[Array, "b m w"]
    meets: Bool[Array, "b m"]  # there is such a peer, and it is active
    plus: Bool[Array, "b m"]  # the user adds the mask of the pair, rather than subtracting it


def masked_sum(protocol: Protocol, num_groups: int) -> Layer:
    """The innermost layer of a secure aggregation of uploads `[b, d]` of elements of `protocol.modulus`.

    Args:
      protocol: how uploads are masked.
      num_groups: groups; each has its own secure sum.
    """
    combine, quorum = exact_sum(protocol.modulus, num_groups), protocol.quorum

    def advertise(
        key: Key, state: tuple, cohort: Cohort, placement: Placement = ONE_DEVICE
    ) -> tuple[Secrets, Roster, Bits]:
        del state
        return sharing.open_round(quorum, key, cohort, placement)

    def encode(key: Key, private: Secrets, roster: Roster, x: Array, cohort: Cohort) -> tuple[Array, tuple, Sent]:
        del key, cohort
        y, sent = _upload(protocol, roster, x, private)
        return y, (), sent

    def disclose(
        private: Secrets,
        roster: Roster,
        clear: PyTree,
        alive: Array,
        online: Array,
        placement: Placement = ONE_DEVICE,
        lists: Lists | None = None,
    ) -> tuple[Opened, Bits]:
        del placement
        return opening.disclose(quorum, private, roster, clear, alive, online, lists)

    def decode(header: Opened, roster: Roster, received: Received, placement: Placement = ONE_DEVICE) -> Received:
        rebuilt = opening.reconstruct(quorum, header, roster)
        some = lambda users: sum_by_group((users & header.alive).astype(jnp.int32), roster.group, num_groups) > 0
        value = received.value
        if not protocol.elide:
            correction = _correction(protocol, combine, rebuilt, header, roster, value.shape[1], placement)
            value = protocol.modulus.add(value, correction)
        status = jnp.where(some(rebuilt.wrong), int(Status.WRONG_SHARES), 0)
        return Received(value, jnp.where(some(rebuilt.recovered), received.count, 0), status)

    return Layer(
        lambda key, n: (), advertise, encode, disclose, decode, combine,
        caveats=(ELIDED,) if protocol.elide else (), needs_placement=True, sums=SecureSum(
            quorum.threshold,
            opened_by=quorum.threshold if quorum.complete else None,  # among neighbours it depends on who they are
            selects=protocol.expansion.located,
            by_list=True,
            protocol=protocol,
            digest=model_digest if protocol.bind_model else None,
        ),
    )  # fmt: skip


def _upload(protocol: Protocol, roster: Roster, x: Array, private: Secrets) -> tuple[Array, Sent]:
    """The messages of a block of users."""
    d = x.shape[1]
    pairs = pairs_of(protocol, roster, private.slot, private.key, roster.selected, d)
    add = protocol.modulus.add
    own = x if protocol.elide else add(private_masks(protocol, roster, private.seed, d), x)
    crowded = sharing.is_crowded(protocol.quorum, roster, private.slot)
    refused = jnp.where(pairs.overflow | crowded, int(Status.CAP_OVERFLOW), 0)
    not_mine = (roster.key[private.slot] != private.public).any(1)
    status = jnp.where(not_mine, int(Status.WRONG_SHARES), 0)
    if not protocol.expansion.located:
        return add(own, pairs.mask), Sent(
            element_bits(protocol.modulus, x), status, refused, each=protocol.modulus.bits
        )
    located = jax.vmap(bitmap.pack)(pairs.chosen)
    bits = bitmap.bits_with(located, d)
    return add(jnp.where(pairs.chosen, own, 0), pairs.mask), Sent(bits, status, refused, located)


def _correction(
    protocol: Protocol, combine: Combine, rebuilt: Rebuilt, header: Opened, roster: Roster, d: int, placement: Placement
) -> UInt32[Array, "g d"]:
    """What is left of the masks in each group's sum, negated: an exact sum over users."""

    def run(shared: tuple, valid: Array, slot: Array, secret: Array, kind: Array, located: PyTree) -> tuple:
        roster, alive = shared
        unmasked = _unmask(protocol, roster, alive, d, slot, secret, jnp.where(valid, kind, 0), located)
        return combine.lift(unmasked, valid, roster.group[slot]), ()

    kind = jnp.where(rebuilt.recovered, jnp.where(header.alive, 1, jnp.where(roster.selected, 2, 0)), 0)
    rows = jnp.arange(kind.size), rebuilt.secrets, kind, header.located
    sums, _ = over_clients(run, (roster, header.alive), rows, row_bytes=4 * d, **placement._asdict())
    return combine.lower(sums).value


def _unmask(
    protocol: Protocol, roster: Roster, alive: Array, d: int, slot: Array, secret: Array, kind: Array, located: PyTree
) -> UInt32[Array, "b d"]:
    """What the server adds to the sum for each user, by `kind`.

    0: nothing. 1, a survivor: its private mask, negated. 2, a lost user: its pairwise masks.
    """
    private = protocol.modulus.neg(private_masks(protocol, roster, secret, d))
    if protocol.expansion.located:
        private = jnp.where(jax.vmap(lambda words: bitmap.unpack(words, d))(located), private, 0)
    lost = kind == 2
    pairs = pairs_of(protocol, roster, slot, secret, alive, d, lost).mask
    return jnp.where(lost[:, None], pairs, jnp.where((kind == 1)[:, None], private, 0))


def private_masks(protocol: Protocol, roster: Roster, seeds: UInt32[Array, "b w"], d: int) -> UInt32[Array, "b d"]:
    """The private mask of each user, on all coordinates. Client and server both call this."""
    expand = protocol.modulus.expand
    return jax.vmap(lambda seed: expand(seed, "private mask", roster.round[0], d, protocol.prg))(seeds)


def bound(protocol: Protocol, seeds: UInt32[Array, "b m w"], digest: UInt32[Array, "b m 2"]) -> UInt32[Array, "b m w"]:
    """The seeds of pairs, keyed anew by the digest of the model: a block of the generator, with the digest as counter.

    Each end of a pair takes the digest of what it received, so masks between users of different models do not cancel
    (Pasquini, Francati, Ateniese 2022).
    """
    rekey = lambda seed, digest: expand(seed, "model", digest[0], seed.size, protocol.prg, part=digest[1])
    return jax.vmap(jax.vmap(rekey))(seeds, digest)


def seeds_of(
    protocol: Protocol,
    roster: Roster,
    slot: Int[Array, " b"],
    secret: UInt32[Array, "b w"],
    active: Bool[Array, " n"],
    asked: Bool[Array, " b"] | None = None,
) -> Seeds:
    """The seeds that each user `asked` for shares with its active peers."""
    near = jax.vmap(lambda slot: peers(roster.circle, slot, protocol.quorum.holders))(slot)
    peer = near.slot[:, 1:]
    meets, plus = near.there[:, 1:] & active[peer], roster.client[peer] > roster.client[slot][:, None]
    if asked is not None:
        meets &= asked[:, None]
    seeds = protocol.quorum.agreement.shared_seeds(secret, roster.directory, peer, roster.round[0], meets)
    # Without the barrier XLA on a CPU agrees on a seed again for each of its words.
    seeds = jax.lax.optimization_barrier(seeds)
    if protocol.bind_model:  # what a peer of a lost user added depends on the peer's own model
        digest = jnp.repeat(roster.digest[slot][:, None], peer.shape[1], 1) if asked is None else roster.digest[peer]
        seeds = bound(protocol, seeds, digest)
    return Seeds(peer, seeds, meets, plus)


def pairs_of(
    protocol: Protocol,
    roster: Roster,
    slot: Int[Array, " b"],
    secret: UInt32[Array, "b w"],
    active: Bool[Array, " n"],
    d: int,
    asked: Bool[Array, " b"] | None = None,
) -> Pairs:
    """The pairwise masks of each user `asked` for with its active peers. Client and server both call this."""
    _, *shared = seeds_of(protocol, roster, slot, secret, active, asked)
    return protocol.expansion.pairs(*shared, roster.round[0], d)

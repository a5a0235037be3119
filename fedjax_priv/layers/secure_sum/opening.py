"""What is opened once the survivors are known, and what the server rebuilds from it.

Survivors open the shares of the seeds of survivors and of the keys of the lost, never both of one user. Each acts on
what the server tells it: which of its own holders' uploads arrived. The server checks every secret it rebuilds against
the public key or the commitment of its owner, so a wrong share costs its group and corrupts no sum.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree, UInt32

from fedjax_priv.base import Bits, Link, Lists, absent
from fedjax_priv.crypto import shamir
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.layers.group_sums import message_bits
from fedjax_priv.layers.secure_sum.circle import Peers, in_group
from fedjax_priv.layers.secure_sum.lists import agreed, consistency_bits, list_bits, told_to
from fedjax_priv.layers.secure_sum.sharing import (
    Quorum,
    Roster,
    Secrets,
    all_peers,
    commitment,
    num_holders,
)


class Opened(NamedTuple):
    """What the server is sent once the survivors are known, and what it kept of their uploads."""

    shares: UInt32[Array, "n m w"]  # of a lost peer's key or a surviving peer's seed; zero: not sent
    alive: Bool[Array, " n"]
    online: Bool[Array, " n"]  # sent shares
    located: PyTree  # location sets of the uploads
    told: PyTree = ()  # bool [n, m], which holders each user was told survived, if the server lied; (): `alive`


class Rebuilt(NamedTuple):
    """What the server makes of the shares."""

    secrets: UInt32[Array, "n w"]  # the key of each lost user, the seed of each survivor
    known: Bool[Array, " n"]  # the secret is what its owner published
    recovered: Bool[Array, " n"]  # all that the user's group needs is known
    wrong: Bool[Array, " n"]  # the group needs a secret whose shares were enough and did not give it


def disclose(
    quorum: Quorum,
    private: Secrets,
    roster: Roster,
    located: PyTree,
    alive: Array,
    online: Array,
    lists: Lists | None = None,
) -> tuple[Opened, Bits]:
    """The server tells each survivor which of its holders survived; those that are still there open shares.

    With `lists` it tells each what that says. With `quorum.consistency` they first compare what they were told.
    """
    peers = all_peers(quorum, roster)
    told, listed = told_to(lists, alive, peers), list_bits(quorum, roster, alive)
    answering, checked = online, {}
    if quorum.consistency:
        answering, checked = agreed(quorum, roster, told, online, lists), consistency_bits(roster, online, listed)
        listed = jnp.zeros_like(listed)
    shares, sent = jax.vmap(functools.partial(_answer, quorum))(private.shares, peers.there, told, answering)
    up = sent.sum(1, dtype=jnp.uint32) * message_bits(shares[0, 0])
    header = Opened(shares, alive, sent.any(1), only_rows(alive, located), () if lists is None else told)
    return header, {**checked, "unmask": Link(up, listed)}


def _answer(
    quorum: Quorum, shares: UInt32[Array, "m v"], there: Bool[Array, " m"], told: Bool[Array, " m"], online: Array
) -> tuple[UInt32[Array, "m w"], Bool[Array, " m"]]:
    """What one user opens: a share of each peer's seed or key, if enough of its own holders survived; or nothing."""
    sent = there & online & (told.sum() >= quorum.threshold)
    return only_rows(sent, jnp.where(told[:, None], shares[:, quorum.words :], shares[:, : quorum.words])), sent


def reconstruct(quorum: Quorum, header: Opened, roster: Roster) -> Rebuilt:
    """The key of each lost user and the seed of each survivor, each checked against what its owner published."""
    of_kind = None if absent(header.told) else header.told == header.alive[all_peers(quorum, roster).slot]
    secrets, enough = rebuild(quorum, roster, header.shares, header.online, of_kind)
    known = enough & fits(quorum, roster, secrets, header.alive)
    met = num_holders(all_peers(quorum, roster), header.alive) > 0
    needed = roster.selected & (header.alive | met)
    some = lambda users: in_group(users, roster.group) > 0
    return Rebuilt(secrets, known, some(header.alive) & ~some(needed & ~known), some(needed & enough & ~known))


def rebuild(
    quorum: Quorum,
    roster: Roster,
    shares: UInt32[Array, "n m w"],
    holders: Bool[Array, " n"],
    of_kind: Bool[Array, "n m"] | None = None,
) -> tuple[UInt32[Array, "n w"], Bool[Array, " n"]]:
    """The secret of each user from the shares of its first holders, unchecked, and whether there are enough of them.

    Args:
      quorum: who holds shares.
      roster: of the round.
      shares: row i holds those that user i has of its peers' secrets.
      holders: whose shares are there.
      of_kind: which of the shares are of the secret that is wanted of the peer; None: all.
    """
    peers = all_peers(quorum, roster)
    answers = holders[peers.slot] & peers.there
    if of_kind is None:
        weights = _weights(quorum, holders, peers, answers, roster)
    else:
        answers &= of_kind[peers.slot, peers.back]
        weights = _weights_by_user(quorum, peers, answers, roster)
    secrets = jax.vmap(shamir.reconstruct)(shares[peers.slot, peers.back], weights)
    return secrets, answers.sum(1) >= quorum.threshold


def fits(quorum: Quorum, roster: Roster, secrets: UInt32[Array, "n w"], seed: Bool[Array, " n"]) -> Bool[Array, " n"]:
    """Whether each secret is the one its owner published: the private mask's `seed`, else the key."""
    key = (quorum.agreement.public_key(secrets) == roster.key).all(1)
    return jnp.where(seed, (commitment(secrets) == roster.commitment).all(1), key)


def _weights(quorum: Quorum, holders: Array, peers: Peers, answers: Array, roster: Roster) -> UInt32[Array, "n m"]:
    """Of each user's holders. On the complete graph the same ones answer for everybody."""
    if quorum.complete:
        chosen = shamir.first(quorum.threshold, holders, roster.group)
        points = _points(quorum)[roster.circle.place - roster.circle.start]
        weights = shamir.lagrange_weights(points, chosen, roster.group)
        return jnp.where(peers.there, weights[peers.slot], 0)
    chosen = jax.vmap(functools.partial(shamir.first, quorum.threshold))(answers)
    return jax.vmap(shamir.lagrange_weights, (None, 0))(_points(quorum), chosen)


def _weights_by_user(quorum: Quorum, peers: Peers, answers: Array, roster: Roster) -> UInt32[Array, "n m"]:
    """Of each user's holders, where others answer for one user than for the next."""
    places = jnp.broadcast_to(jnp.arange(quorum.holders), answers.shape)
    if quorum.complete:
        places = (roster.circle.place - roster.circle.start)[peers.slot]
    chosen = jax.vmap(functools.partial(shamir.first, quorum.threshold))(answers)
    one = lambda user: shamir.lagrange_weights(_points(quorum)[user[0]], user[1])
    return jax.lax.map(one, (places, chosen))  # of all users at once: [n, m, m]


def _points(quorum: Quorum) -> UInt32[Array, " m"]:
    """Of holders, by place. Without the barrier XLA would compute with them while it compiles."""
    return jax.lax.optimization_barrier(jnp.asarray(shamir.points(quorum.holders)))

"""The protocol around the masks of secure aggregation: keys, seeds, shares, and what is opened of them.

Every user has a key, from which any of its pairwise seeds can be rebuilt, and the seed of a private mask; both are new
each round. It shares both by Shamir's scheme with its peers and itself. Survivors open the shares of the seeds of
survivors and of the keys of the lost, never both of one user (Bonawitz et al., CCS 2017; among neighbours only, Bell et
al., CCS 2020).
"""

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import ONE_DEVICE, Bits, Cohort, Key, Link, Placement
from fedjax_priv.crypto import key_agreement, shamir
from fedjax_priv.crypto.prg import expand
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.keys import named, per_client
from fedjax_priv.layers.group_sums import message_bits
from fedjax_priv.layers.secure_sum.circle import Circle, Peers, arrange, in_group, peers


class Quorum(NamedTuple):
    """Who holds shares of a user's secrets, and how many of them reconstruct one."""

    group_size: int  # most users in a group
    holders: int  # of shares of a user's secrets: its peers and itself
    threshold: int  # shares that reconstruct

    @property
    def complete(self) -> bool:
        """Whether all users of a group are peers."""
        return self.holders == self.group_size


class Secrets(NamedTuple):
    """What a user knows alone: its secrets, and its shares of its peers' secrets."""

    slot: Int[Array, " n"]  # its row in the roster
    key: UInt32[Array, "n 2"]  # exponent of the key agreement
    seed: UInt32[Array, "n 2"]  # of the private mask
    shares: UInt32[Array, "n m 4"]  # of each peer's key and seed


class Roster(NamedTuple):
    """What everybody knows once a round is open."""

    client: Int[Array, " n"]
    round: Int[Array, " n"]
    key: UInt32[Array, "n 2"]  # public
    group: Int[Array, " n"]
    selected: Bool[Array, " n"]
    circle: Circle


class Opened(NamedTuple):
    """What the server is sent once the survivors are known, and what it kept of their uploads."""

    shares: UInt32[Array, "n m 2"]  # of a lost peer's key or a surviving peer's seed; zero: not sent
    alive: Bool[Array, " n"]
    online: Bool[Array, " n"]  # sent shares
    located: PyTree  # location sets of the uploads


def quorum_of(group_size: int, neighbours: int | Literal["all"], threshold: int | None) -> Quorum:
    """Checked arguments; the threshold is more than half of the holders if not given.

    Raises:
      ValueError: a size below its minimum, neighbours that are no even number below `group_size`, or a threshold
        outside [2, holders].
    """
    _validate.integer(at_least=2, group_size=group_size)
    if neighbours != "all":
        _validate.integer(at_least=2, neighbours=neighbours)
        if neighbours % 2 or neighbours >= group_size:
            raise ValueError(
                f"neighbours must be 'all' or an even integer below group_size = {group_size}, got {neighbours}"
            )
    holders = group_size if neighbours == "all" else neighbours + 1
    threshold = holders // 2 + 1 if threshold is None else threshold
    _validate.integer(at_least=2, threshold=threshold)
    if threshold > holders:
        name = "group_size" if neighbours == "all" else "neighbours + 1"
        raise ValueError(f"threshold must be at most {name} = {holders}, got {threshold}")
    return Quorum(group_size, holders, threshold)


def open_round(
    quorum: Quorum, key: Key, cohort: Cohort, placement: Placement = ONE_DEVICE
) -> tuple[Secrets, Roster, Bits]:
    """Keys are agreed, secrets drawn and shared."""
    secret = per_client(key_agreement.secret_key, named(key, "key"), cohort.client)
    seed = per_client(_field_elements, named(key, "seed"), cohort.client)
    # Without the barrier XLA would compute the peers of all users, [n, m], while it compiles.
    circle = jax.lax.optimization_barrier(arrange(cohort, None if quorum.complete else named(key, "graph")))
    public = jax.vmap(key_agreement.public_key)(secret)
    roster = Roster(cohort.client, cohort.round, public, cohort.group, cohort.selected, circle)
    shares = _share(quorum, named(key, "share"), jnp.concatenate([secret, seed], 1), roster, placement)
    private = Secrets(jnp.arange(cohort.client.size), secret, seed, shares)
    return private, roster, _opening_bits(quorum, private, roster)


def all_peers(quorum: Quorum, roster: Roster) -> Peers:
    """`[n, m]`."""
    return jax.vmap(lambda slot: peers(roster.circle, slot, quorum.holders))(jnp.arange(roster.client.size))


def is_crowded(quorum: Quorum, roster: Roster, slot: Array) -> Array:
    """Whether a user's group is larger than it may be."""
    return roster.circle.members[slot] > quorum.group_size


def disclose(
    quorum: Quorum, private: Secrets, roster: Roster, located: PyTree, alive: Array, online: Array
) -> tuple[Opened, Bits]:
    """Every survivor that is still there opens one kind of share of each peer that has enough surviving holders."""
    peers = all_peers(quorum, roster)
    safe = _holders(peers, alive) >= quorum.threshold
    of_peer = jnp.where(alive[peers.slot][..., None], private.shares[..., 2:], private.shares[..., :2])
    sent = online[:, None] & peers.there & safe[peers.slot]
    shares = only_rows(sent, of_peer)
    bits = _closing_bits(quorum, shares, sent, alive, roster)
    return Opened(shares, alive, sent.any(1), only_rows(alive, located)), bits


def reconstruct(quorum: Quorum, header: Opened, roster: Roster) -> tuple[UInt32[Array, "n 2"], Bool[Array, " n"]]:
    """The key of each lost user and the seed of each survivor, and whether all a user's group needs is there."""
    peers = all_peers(quorum, roster)
    answers = header.online[peers.slot] & peers.there
    opened = header.shares[peers.slot, peers.back]
    secrets = jax.vmap(shamir.reconstruct)(opened, _weights(quorum, header.online, peers, answers, roster))
    known = answers.sum(1) >= quorum.threshold
    needed = roster.selected & (header.alive | (_holders(peers, header.alive) > 0))
    missing = in_group(needed & ~known, roster.group)
    return secrets, (missing == 0) & (in_group(header.alive, roster.group) > 0)


def _field_elements(key: Key) -> UInt32[Array, " 2"]:
    return expand(jax.random.bits(key, (2,), jnp.uint32), "seed", 0, 2)


def _holders(peers: Peers, members: Array) -> Array:
    """How many of each user's holders are among the members."""
    return (members[peers.slot] & peers.there).sum(1)


def _points(quorum: Quorum, roster: Roster, peers: Peers) -> Int[Array, "n m"]:
    """Where each peer's polynomials are evaluated for a user, from 1.

    On the complete graph it is the user's place in its group, so that the same holders have the same points for all;
    else where the user stands among the peer's peers.
    """
    if quorum.complete:
        place = (roster.circle.place - roster.circle.start)[:, None]
        return jnp.broadcast_to(jnp.minimum(place, quorum.holders - 1), peers.back.shape) + 1
    return peers.back + 1


def _share(quorum: Quorum, key: Key, secrets: Array, roster: Roster, placement: Placement) -> UInt32[Array, "n m 4"]:
    """Each user's shares of its peers' secrets."""
    peers = all_peers(quorum, roster)

    def run(key: Key, valid: Array, client: Array, secrets: Array) -> tuple:
        own = functools.partial(shamir.share, threshold=quorum.threshold, num_shares=quorum.holders)
        return (), jax.vmap(own)(jax.vmap(lambda i: jax.random.fold_in(key, i))(client), secrets)

    _, shares = over_clients(run, key, (roster.client, secrets), **placement._asdict())
    mine = _points(quorum, roster, peers)
    return jnp.where(peers.there[..., None], shares[peers.slot, mine - 1], 0)


def _weights(quorum: Quorum, online: Array, peers: Peers, answers: Array, roster: Roster) -> UInt32[Array, "n m"]:
    """Of each user's holders. On the complete graph the same ones answer for everybody."""
    if quorum.complete:
        chosen = shamir.first(quorum.threshold, online, roster.group)
        points = (roster.circle.place - roster.circle.start + 1).astype(jnp.uint32)
        weights = shamir.lagrange_weights(points, chosen, roster.group)
        return jnp.where(peers.there, weights[peers.slot], 0)
    chosen = jax.vmap(functools.partial(shamir.first, quorum.threshold))(answers)
    points = jnp.arange(1, quorum.holders + 1, dtype=jnp.uint32)
    return jax.vmap(shamir.lagrange_weights, (None, 0))(points, chosen)


def _num_holders(quorum: Quorum, roster: Roster) -> Array:
    return jnp.where(roster.selected, jnp.minimum(roster.circle.members, quorum.holders), 0).astype(jnp.uint32)


def _opening_bits(quorum: Quorum, private: Secrets, roster: Roster) -> Bits:
    """Public keys to the server and back from it; a share of both secrets to every peer and back."""
    others = jnp.maximum(_num_holders(quorum, roster), 1) - 1
    key, share = message_bits(private.key[0]), message_bits(private.shares[0, 0])
    return {
        "advertise": Link(jnp.where(roster.selected, key, 0), others * key),
        "share": Link(others * share, others * share),
    }


def _closing_bits(quorum: Quorum, shares: Array, sent: Array, alive: Array, roster: Roster) -> Bits:
    """The list of survivors among its holders, a bit each, to each survivor; the shares they open back."""
    share = message_bits(shares[0, 0])
    listed = jnp.where(alive, 8 * ((_num_holders(quorum, roster) + 7) // 8), 0)
    return {"unmask": Link(sent.sum(1, dtype=jnp.uint32) * share, listed)}

"""SecAgg (Bonawitz et al., CCS 2017): a secure sum in F_q that survives dropouts and an honest-but-curious server.

Every pair of users of a group agrees on a seed, every user draws one more; keys, seeds and shares are new each round.
An upload is `x_i + PRG(s_i) + sum_{j>i} PRG(s_ij) - sum_{j<i} PRG(s_ij)` (eq. 9 of SparseSecAgg, on quantized updates).
Each user shares its key and its seed by Shamir's scheme; survivors open the shares of the seeds of survivors and of the
keys of the lost, never both of one user, and the server takes out what does not cancel (eq. 10, with the sign of the
errata: a survivor j > i holds -r_ij for a lost i).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Int, Int32, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import Bits, Cohort, Key, Layer, Link, Received, Sent
from fedjax_priv.blocks import over_clients
from fedjax_priv.crypto import field, key_agreement, shamir
from fedjax_priv.crypto.prg import Prg, expand, philox
from fedjax_priv.keys import named, per_client
from fedjax_priv.layers.combine import field_sum, message_bits, sum_by_group
from fedjax_priv.rows import rows_where
from fedjax_priv.status import Status

LANES = 4
"""Masks expanded side by side: on a CPU one alone is 10 times slower, not vectorised by XLA; 16 leave its cache."""


class Secrets(NamedTuple):
    """What a user knows: its own secrets, and its shares of everybody's."""

    slot: Int[Array, " n"]  # its row in the roster
    key: UInt32[Array, "n 2"]  # exponent of the key agreement
    seed: UInt32[Array, "n 2"]  # of the private mask
    shares: UInt32[Array, "n owner 4"]  # of each owner's key and seed, zero outside the group


class Roster(NamedTuple):
    """What everybody knows once a round is open."""

    client: Int[Array, " n"]
    round: Int[Array, " n"]
    key: UInt32[Array, "n 2"]  # public
    group: Int[Array, " n"]
    selected: Bool[Array, " n"]
    order: Int[Array, " n"]  # slots sorted by group: a group's members are neighbours
    place: Int[Array, " n"]  # where a slot stands in `order`
    start: Int[Array, " n"]  # where its group starts in `order`
    members: Int[Array, " n"]  # of its group, selected or not


class Opened(NamedTuple):
    """What the server is sent once the survivors are known."""

    shares: UInt32[Array, "n owner 2"]  # of a lost owner's key or a surviving owner's seed; zero: not sent
    alive: Bool[Array, " n"]
    online: Bool[Array, " n"]


def pairwise_masks(
    num_groups: int = 1,
    *,
    group_size: int,
    threshold: int | None = None,
    prg: Prg = philox,
    block: int = 8,
    mesh: Mesh | None = None,
) -> Layer:
    """The innermost layer of SecAgg: exact sums of uploads `[b, d]` in F_q by group, complete graph, dense masks.

    Args:
      num_groups: groups, each with a secure sum of its own.
      group_size: most clients in a group, at least 2 (alone, a client's sum is its update). A larger group sets
        `CAP_OVERFLOW`.
      threshold: shares that reconstruct a secret; fewer reveal nothing, and a group with fewer survivors is lost.
        floor(group_size / 2) + 1 if not given.
      prg: generator of the masks.
      block: users whose masks the server takes out at once.
      mesh: devices the server spreads this work over.

    A Diffie-Hellman agreement in F_q and 64-bit seeds are simulation-grade: the protocol is run, not its strength. The
    encryption under which shares pass through the server, and its second key pair, are neither run nor counted in bits.

    Raises:
      ValueError: a size below its minimum, or a threshold outside [2, group_size].
    """
    _validate.integer(num_groups=num_groups, block=block)
    _validate.integer(at_least=2, group_size=group_size)
    threshold = group_size // 2 + 1 if threshold is None else threshold
    _validate.integer(at_least=2, threshold=threshold)
    if threshold > group_size:
        raise ValueError(f"threshold must be at most group_size = {group_size}, got {threshold}")
    combine = field_sum(num_groups)

    def advertise(key: Key, state: tuple, cohort: Cohort) -> tuple[Secrets, Roster, Bits]:
        del state
        secret = per_client(key_agreement.secret_key, named(key, "key"), cohort.client)
        seed = per_client(_field_elements, named(key, "seed"), cohort.client)
        roster = _enrol(cohort, jax.vmap(key_agreement.public_key)(secret))
        shares = _share(named(key, "share"), jnp.concatenate([secret, seed], 1), roster, threshold)
        private = Secrets(jnp.arange(cohort.client.size), secret, seed, shares)
        return private, roster, _opening_bits(private, roster)

    def encode(key: Key, private: Secrets, roster: Roster, x: Array, cohort: Cohort) -> tuple[Array, tuple, Sent]:
        del key
        b, d = x.shape

        def one(x: Array, private: Secrets) -> Array:
            own = expand(private.seed, "private mask", roster.round[0], d, prg)
            pairwise = _pairs(private.slot, private.key, roster, roster.selected, d, lanes=max(1, LANES // b))
            return field.add(field.add(x, own), pairwise)

        y = jax.vmap(one)(x, private._replace(shares=()))
        crowded = roster.members[private.slot] > group_size
        return y, (), Sent(message_bits(y, b), jnp.where(crowded, int(Status.CAP_OVERFLOW), 0))

    def disclose(private: Secrets, roster: Roster, clear: tuple, alive: Array, online: Array) -> tuple[Opened, Bits]:
        del clear
        enough = _survivors(alive, roster) >= threshold
        of_owner = jnp.where(alive[:, None], private.shares[..., 2:], private.shares[..., :2])
        sent = (online & enough)[:, None] & _peers(roster)
        header = Opened(rows_where(sent, of_owner, jnp.zeros_like(of_owner)), alive, online & enough)
        return header, _closing_bits(header, sent, roster)

    def decode(header: Opened, roster: Roster, received: Received) -> Received:
        available = _survivors(header.online, roster) >= threshold
        opened = _reconstruct(header, roster, threshold)
        correction = _correction(opened, header.alive, roster, received.value.shape[1])
        recovered = sum_by_group(available.astype(jnp.int32), roster.group, num_groups) > 0
        return Received(field.add(received.value, correction), jnp.where(recovered, received.count, 0))

    def _pairs(slot: Array, secret: Array, roster: Roster, active: Array, d: int, lanes: int) -> UInt32[Array, " d"]:
        """One user's pairwise masks with the active users of its group, signed and summed; client and server alike.

        They are expanded `lanes` at a time; a place past the end of the group stands for no one.
        """
        away = 1 + jnp.arange(-(-(group_size - 1) // lanes) * lanes)
        start, members = roster.start[slot], roster.members[slot]
        peer = roster.order[start + (roster.place[slot] - start + away) % members]
        seeds = jax.vmap(key_agreement.shared_seed, (None, 0))(secret, roster.key[peer])
        meets, plus = (away < members) & active[peer], roster.client[peer] > roster.client[slot]

        def add_masks(total: Array, peers: tuple) -> tuple[Array, None]:
            seeds, meets, plus = peers
            words = jax.vmap(lambda seed: expand(seed, "pairwise mask", roster.round[0], d, prg))(seeds)
            signed = jnp.where(plus[:, None], words, field.neg(words))
            return field.add(total, field.sum(jnp.where(meets[:, None], signed, 0))), None

        peers = jax.tree.map(lambda a: a.reshape(-1, lanes, *a.shape[1:]), (seeds, meets, plus))
        return jax.lax.scan(add_masks, jnp.zeros(d, jnp.uint32), peers)[0]

    def _correction(opened: Array, alive: Array, roster: Roster, d: int) -> UInt32[Array, "g d"]:
        """What is left of the masks in each group's sum, negated: a field sum over users, on all devices."""

        def settle(roster: Roster, alive: Array, row: tuple) -> Array:
            slot, secret, kind = row
            return jax.lax.switch(
                kind,
                (
                    lambda: jnp.zeros(d, jnp.uint32),
                    lambda: field.neg(expand(secret, "private mask", roster.round[0], d, prg)),
                    lambda: _pairs(slot, secret, roster, alive, d, lanes=LANES),
                ),
            )

        def run(shared: tuple, valid: Array, slot: Array, secret: Array, kind: Array, group: Array) -> tuple:
            each = (slot, secret, jnp.where(valid, kind, 0))
            return combine.lift(jax.lax.map(functools.partial(settle, *shared), each), valid, group), ()

        enough = _survivors(alive, roster) >= threshold
        kind = jnp.where(enough, jnp.where(alive, 1, jnp.where(roster.selected, 2, 0)), 0)
        rows = jnp.arange(kind.size), opened, kind, roster.group
        sums, _ = over_clients(run, (roster, alive), rows, block=block, mesh=mesh)
        return combine.lower(sums).value

    return Layer(lambda key, n: (), advertise, encode, disclose, decode, combine)


def _field_elements(key: Key) -> UInt32[Array, " 2"]:
    return expand(jax.random.bits(key, (2,), jnp.uint32), "seed", 0, 2)


def _enrol(cohort: Cohort, public: Array) -> Roster:
    order = jnp.argsort(cohort.group, stable=True)
    place = jnp.zeros_like(order).at[order].set(jnp.arange(order.size))
    ordered = cohort.group[order]
    start = jnp.searchsorted(ordered, cohort.group, side="left")
    end = jnp.searchsorted(ordered, cohort.group, side="right")
    return Roster(cohort.client, cohort.round, public, cohort.group, cohort.selected, order, place, start, end - start)


def _peers(roster: Roster) -> Bool[Array, "n n"]:
    """Who holds a share of whom: selected users of the same group, oneself included."""
    same = roster.group[:, None] == roster.group[None, :]
    return same & roster.selected[:, None] & roster.selected[None, :]


def _share(key: Key, secrets: Array, roster: Roster, threshold: int) -> UInt32[Array, "n owner 4"]:
    n = secrets.shape[0]
    shares = shamir.share(key, secrets, threshold=threshold, num_shares=n)
    return jnp.where(_peers(roster)[..., None], shares, 0)


def _survivors(alive: Array, roster: Roster) -> Int32[Array, " n"]:
    """Users alive in each user's group."""
    counts = jax.ops.segment_sum(alive.astype(jnp.int32), roster.group, roster.group.size)
    return counts[roster.group]


def _reconstruct(header: Opened, roster: Roster, threshold: int) -> UInt32[Array, "n 2"]:
    """The key of each lost user and the seed of each survivor, from the first shares that suffice."""
    chosen = shamir.first(threshold, header.online, roster.group)
    return shamir.reconstruct(header.shares, shamir.lagrange_weights(chosen, roster.group))


def _selected_members(roster: Roster) -> Array:
    return jnp.where(roster.selected, _survivors(roster.selected, roster), 0).astype(jnp.uint32)


def _opening_bits(private: Secrets, roster: Roster) -> Bits:
    """Public keys to the server and back from it; a share of both secrets to every other member and back."""
    members = _selected_members(roster)
    others = jnp.maximum(members, 1) - 1
    key, share = message_bits(private.key[0]), message_bits(private.shares[0, 0])
    return {
        "advertise": Link(jnp.where(roster.selected, key, 0), others * key),
        "share": Link(others * share, others * share),
    }


def _closing_bits(header: Opened, sent: Array, roster: Roster) -> Bits:
    """The list of survivors, a bit a member, to each of them; the shares they open back."""
    share = message_bits(header.shares[0, 0])
    survivors = jnp.where(header.alive, _selected_members(roster), 0)
    return {"unmask": Link(sent.sum(1, dtype=jnp.uint32) * share, 8 * ((survivors + 7) // 8))}

"""The opening of a round of secure aggregation: keys are agreed, secrets drawn and shared.

Every user has a key, from which any of its pairwise seeds can be rebuilt, and the seed of a private mask; both are new
each round. It shares both by Shamir's scheme with its peers and itself (Bonawitz et al., CCS 2017; among neighbours
only, Bell et al., CCS 2020). To the server it also commits to the seed, as its public key commits to the key: what is
rebuilt from shares can then be checked. `opening` is what happens once the survivors are known.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import ONE_DEVICE, Bits, Cohort, Key, Link, Placement
from fedjax_priv.crypto import shamir
from fedjax_priv.crypto.agreement import SIMULATED, AgreementName, KeyAgreement, agreement_of
from fedjax_priv.crypto.prg import elements, expand, philox, seed_of
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.keys import named
from fedjax_priv.layers.group_sums import message_bits
from fedjax_priv.layers.secure_sum.circle import Circle, Peers, arrange, peers


class Quorum(NamedTuple):
    """What a user's secrets are, who holds shares of them, and how many reconstruct one."""

    group_size: int  # most users in a group
    holders: int  # of shares of a user's secrets: its peers and itself
    threshold: int  # shares that reconstruct
    consistency: bool = False  # users open nothing unless `threshold` of them signed the same list of survivors
    agreement: KeyAgreement = SIMULATED  # of the seeds of pairs
    words: int = 2  # of a seed, and so of a secret

    @property
    def complete(self) -> bool:
        """Whether all users of a group are peers."""
        return self.holders == self.group_size


class Secrets(NamedTuple):
    """What a user knows: its secrets, its shares of its peers' secrets, and what it published."""

    slot: Int[Array, " n"]  # its row in the roster
    key: UInt32[Array, "n w"]  # secret of the key agreement
    seed: UInt32[Array, "n w"]  # of the private mask
    shares: UInt32[Array, "n m v"]  # of each peer's key and seed
    public: UInt32[Array, "n w"]  # the public key it sent; the roster has the one that arrived


class Roster(NamedTuple):
    """What everybody knows once a round is open."""

    client: Int[Array, " n"]
    round: Int[Array, " n"]
    key: UInt32[Array, "n w"]  # public
    commitment: UInt32[Array, "n w"]  # to the seed of the private mask; told the server only
    group: Int[Array, " n"]
    selected: Bool[Array, " n"]
    circle: Circle
    directory: PyTree  # of all keys, as the key agreement has it
    digest: PyTree = ()  # uint32 [n, 2], of the model that each user was given, as the server knows; (): not needed


def quorum_of(
    group_size: int,
    neighbours: int | Literal["all"],
    threshold: int | None,
    consistency: bool = False,
    key_agreement: AgreementName = "simulated",
    words: int = 2,
) -> Quorum:
    """Checked arguments; the threshold is more than half of the holders if not given.

    Raises:
      ValueError: a size below its minimum, neighbours that are no even number below `group_size`, a threshold
        outside [2, holders], or `consistency` among neighbours only; or as `crypto.agreement.agreement_of`.
      ImportError: X25519 without the package `cryptography`.
    """
    _validate.integer(at_least=2, group_size=group_size)
    number = isinstance(neighbours, int | np.integer) and neighbours in range(2, group_size, 2)
    if not number and not (isinstance(neighbours, str) and neighbours == "all"):
        allowed = f"'all' or an even integer >= 2 and below group_size = {group_size}"
        raise ValueError(f"neighbours must be {allowed}, got {neighbours!r}")
    holders = group_size if neighbours == "all" else int(neighbours) + 1
    threshold = holders // 2 + 1 if threshold is None else threshold
    _validate.integer(at_least=2, threshold=threshold)
    if threshold > holders:
        name = "group_size" if neighbours == "all" else "neighbours + 1"
        raise ValueError(f"threshold must be at most {name} = {holders}, got {threshold}")
    if consistency and neighbours != "all":
        raise ValueError(f"consistency must be False with neighbours, whose lists differ, got {neighbours}")
    agreement = agreement_of(key_agreement, words, group_size)
    return Quorum(group_size, holders, threshold, consistency, agreement, words)


def open_round(
    quorum: Quorum, key: Key, cohort: Cohort, placement: Placement = ONE_DEVICE
) -> tuple[Secrets, Roster, Bits]:
    """Keys are agreed, secrets drawn and shared."""
    secret, seed, coefficients = _draw(quorum, key, cohort.client)
    # Without the barrier XLA would compute the peers of all users, [n, m], while it compiles.
    circle = jax.lax.optimization_barrier(arrange(cohort, None if quorum.complete else named(key, "graph")))
    public = quorum.agreement.public_key(secret)
    roster = Roster(
        cohort.client, cohort.round, public, commitment(seed), cohort.group, cohort.selected, circle,
        quorum.agreement.directory(public), cohort.digest,
    )  # fmt: skip
    shares = _share(quorum, coefficients, jnp.concatenate([secret, seed], 1), roster, placement)
    private = Secrets(jnp.arange(cohort.client.size), secret, seed, shares, public)
    return private, roster, _opening_bits(quorum, private, roster)


def all_peers(quorum: Quorum, roster: Roster) -> Peers:
    """`[n, m]`."""
    return jax.vmap(lambda slot: peers(roster.circle, slot, quorum.holders))(jnp.arange(roster.client.size))


def is_crowded(quorum: Quorum, roster: Roster, slot: Array) -> Array:
    """Whether a user's group is larger than it may be."""
    return roster.circle.members[slot] > quorum.group_size


def commitment(seed: UInt32[Array, "n w"]) -> UInt32[Array, "n w"]:
    """What a user tells the server of the seed of its private mask: words of the seed's own stream that mask nothing.

    They hide the seed as far as masks hide an update. Another seed of two words has them with probability
    2**-64, one of eight with 2**-256.
    """
    return expand(seed.T, "commitment", 0, seed.shape[1]).T


def _draw(quorum: Quorum, key: Key, client: Int[Array, " n"]) -> tuple[UInt32[Array, "n w"], ...]:
    """The key of each user, the seed of its private mask, and the seed of its polynomials.

    All words come from one seed, by the number of the client: a hash of keys for each takes long to compile.
    """
    root = seed_of(named(key, "secrets"))
    drawn = jax.vmap(lambda i: philox.words(root, "secrets", i, 5 * quorum.words))(client)
    words = jnp.moveaxis(drawn.reshape(-1, 5, quorum.words), 1, 0)
    return quorum.agreement.secret(words[0], words[1]), elements(words[2], words[3]), words[4]


def num_holders(peers: Peers, members: Bool[Array, " n"]) -> Int[Array, " n"]:
    """How many of each user's holders are among the members."""
    return (members[peers.slot] & peers.there).sum(1)


def _places(quorum: Quorum, roster: Roster, peers: Peers) -> Int[Array, "n m"]:
    """A user's place among the holders of each peer's secrets.

    On the complete graph it is its place in its group, so that the same holders have the same points for all;
    else where the user stands among the peer's peers.
    """
    if quorum.complete:
        place = (roster.circle.place - roster.circle.start)[:, None]
        return jnp.broadcast_to(jnp.minimum(place, quorum.holders - 1), peers.back.shape)
    return peers.back


def _share(quorum: Quorum, seed: Array, secrets: Array, roster: Roster, placement: Placement) -> UInt32[Array, "n m v"]:
    """Each user's shares of its peers' secrets, by polynomials from its seed."""
    peers = all_peers(quorum, roster)

    def run(shared: tuple, valid: Array, seed: Array, secrets: Array) -> tuple:
        return (), shamir.share(seed, secrets, threshold=quorum.threshold, num_shares=quorum.holders)

    held = secrets.shape[1] * 4 * (2 * quorum.threshold + 3 * quorum.holders)  # polynomials, folded ones, shares
    _, shares = over_clients(run, (), (seed, secrets), row_bytes=held, **placement._asdict())
    return jnp.where(peers.there[..., None], shares[peers.slot, _places(quorum, roster, peers)], 0)


def group_holders(quorum: Quorum, roster: Roster) -> UInt32[Array, " n"]:
    """How many holders each user has in its group, itself included; none if it is not selected."""
    return jnp.where(roster.selected, jnp.minimum(roster.circle.members, quorum.holders), 0).astype(jnp.uint32)


def _opening_bits(quorum: Quorum, private: Secrets, roster: Roster) -> Bits:
    """A public key and a commitment to the server, peers' keys back; a share of both secrets to each peer and back."""
    others = jnp.maximum(group_holders(quorum, roster), 1) - 1
    key, share = message_bits(roster.key[0]), message_bits(private.shares[0, 0])
    told = key + message_bits(roster.commitment[0])
    return {
        "advertise": Link(jnp.where(roster.selected, told, 0), others * key),
        "share": Link(others * share, others * share),
    }

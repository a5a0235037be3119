"""Lists of survivors: what each user is told, what it refuses, and how users compare their lists.

An honest server tells everybody the same list. One that lies may tell each user another one.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, UInt32

from fedjax_priv.base import Bits, Link, Lists
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.layers.secure_sum.circle import Peers, in_group
from fedjax_priv.layers.secure_sum.sharing import Quorum, Roster, group_holders

SIGNATURE_BITS = 512
"""Of Ed25519."""


def told_to(lists: Lists | None, alive: Bool[Array, " n"], peers: Peers) -> Bool[Array, "n m"]:
    """Which of its holders each survivor is told have survived; nobody, if its list lacks itself: it refuses that.

    Args:
      lists: of a server that lies; None: everybody is told the truth.
      alive: the truth.
      peers: the holders.
    """
    if lists is None:
        return only_rows(alive, alive[peers.slot] & peers.there)
    told = jnp.take_along_axis(lists.alive, peers.slot, 1) & peers.there
    return told & (alive & told[:, 0])[:, None]  # a user is the first of its own peers


def agreed(
    quorum: Quorum, roster: Roster, told: Bool[Array, "n m"], online: Bool[Array, " n"], lists: Lists | None
) -> Bool[Array, " n"]:
    """Ideal signatures: whose list at least `threshold` users of its group signed.

    A user signs the one list that it was told, unless it refuses it; a colluder signs every list. A deployment signs
    the list and the round with keys that a third party vouches for, which is not run.
    """
    signs = online & (told.sum(1) >= quorum.threshold)
    if lists is None:
        return online & (in_group(signs, roster.group) >= quorum.threshold)
    together = (roster.group[:, None] == roster.group[None, :]) & roster.selected[None, :]
    named = (lists.alive & together).astype(jnp.int32)
    differ = named.sum(1)[:, None] + named.sum(1)[None, :] - 2 * (named @ named.T)
    signers = together & (lists.colluding[None, :] | (signs[None, :] & (differ == 0)))
    return online & (signers.sum(1) >= quorum.threshold)


def consistency_bits(roster: Roster, online: Bool[Array, " n"], listed: UInt32[Array, " n"]) -> Bits:
    """The list down and a signature up; then the signatures of the others down."""
    others = jnp.maximum(in_group(online, roster.group), 1).astype(jnp.uint32) - 1
    signatures = jnp.where(online, SIGNATURE_BITS * others, 0)
    return {"consistency": Link(jnp.where(online, jnp.uint32(SIGNATURE_BITS), 0), listed + signatures)}


def list_bits(quorum: Quorum, roster: Roster, alive: Bool[Array, " n"]) -> UInt32[Array, " n"]:
    """A bit for each holder, in whole bytes."""
    return jnp.where(alive, 8 * ((group_holders(quorum, roster) + 7) // 8), 0)

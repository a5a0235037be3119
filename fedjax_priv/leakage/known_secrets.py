"""The secrets that the server of a secure sum knows together with colluding users.

Shares count whoever brings them: what survivors opened, and all that colluders hold, of either kind, whether or not
they survived. With `threshold` of them a secret is known, and the owner's public key or commitment confirms it.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt32

from fedjax_priv.base import absent
from fedjax_priv.layers.secure_sum.opening import Opened, fits, rebuild
from fedjax_priv.layers.secure_sum.sharing import Quorum, Roster, all_peers
from fedjax_priv.leakage.colluders import Colluders


class KnownSecrets(NamedTuple):
    """What they know of the users of a round."""

    key: UInt32[Array, "n w"]
    of: Bool[Array, " n"]  # whose key it is
    seed: UInt32[Array, "n w"]  # of the private masks of the targets
    target: Bool[Array, " n"]  # honest survivors whose seed is known


def known_secrets(quorum: Quorum, header: Opened, roster: Roster, colluders: Colluders) -> KnownSecrets:
    """Keys and seeds of users, from what was opened and what colluders bring."""
    member = colluders.member
    keys, known = _of_kind(quorum, header, roster, colluders, seed=False)
    seeds, seed_known = _of_kind(quorum, header, roster, colluders, seed=True)
    return KnownSecrets(
        key=jnp.where(member[:, None], colluders.key, keys),
        of=roster.selected & (known | member),
        seed=seeds,
        target=header.alive & seed_known & ~member,
    )


def _of_kind(
    quorum: Quorum, header: Opened, roster: Roster, colluders: Colluders, *, seed: bool
) -> tuple[UInt32[Array, "n w"], Bool[Array, " n"]]:
    """Everybody's seed or key, and whether it is known: survivors opened the one or the other by the list they had."""
    member, of = colluders.member, slice(quorum.words, None) if seed else slice(quorum.words)
    told = header.alive[all_peers(quorum, roster).slot] if absent(header.told) else header.told
    shares = jnp.where(member[:, None, None], colluders.shares[..., of], header.shares)
    secrets, enough = rebuild(quorum, roster, shares, header.online | member, (told == seed) | member[:, None])
    return secrets, enough & fits(quorum, roster, secrets, jnp.full_like(member, seed))


def nobody(quorum: Quorum, roster: Roster) -> Colluders:
    """Colluders of a server that is alone."""
    n = roster.client.size
    zeros = lambda *shape: jnp.asarray(np.zeros((n, *shape), np.uint32))
    return Colluders(jnp.asarray(np.zeros(n, bool)), zeros(quorum.words), zeros(quorum.holders, 2 * quorum.words))

"""The secrets that the server of a secure sum knows together with colluding users.

Shares count whoever brings them: what survivors opened, and all that colluders hold, of either kind, whether or not
they survived. With `threshold` of them a secret is known, and the owner's public key or commitment confirms it.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, UInt32

from fedjax_priv.layers.secure_sum.opening import Opened, fits, rebuild
from fedjax_priv.layers.secure_sum.sharing import Quorum, Roster, all_peers
from fedjax_priv.leakage.colluders import Colluders


class KnownSecrets(NamedTuple):
    """What they know of the users of a round."""

    key: UInt32[Array, "n w"]
    of: Bool[Array, " n"]  # whose key it is
    seed: UInt32[Array, "n w"]  # of the private masks of the targets
    target: Bool[Array, " n"]  # honest survivors whose seed is known


def known_secrets(quorum: Quorum, header: Opened, roster: Roster, colluders: Colluders | None) -> KnownSecrets:
    """Keys and seeds of users, from what was opened and what colluders bring; None: the server alone."""
    if colluders is None:
        colluders = _nobody(quorum, roster)
    member, alive = colluders.member, header.alive
    brought = _shares_of(quorum, roster, colluders, alive)
    shares = jnp.where(member[:, None, None], brought, header.shares)
    meant, enough = rebuild(quorum, roster, shares, header.online | member)  # survivors' seeds, keys of the lost
    meant_known = enough & fits(quorum, roster, meant, alive)
    keys, enough = rebuild(quorum, roster, _shares_of(quorum, roster, colluders, jnp.zeros_like(alive)), member)
    known = jnp.where(alive, enough & fits(quorum, roster, keys, jnp.zeros_like(alive)), meant_known)
    key = jnp.where(alive[:, None], keys, meant)
    return KnownSecrets(
        key=jnp.where(member[:, None], colluders.key, key),
        of=roster.selected & (known | member),
        seed=meant,
        target=alive & meant_known & ~member,
    )


def _shares_of(quorum: Quorum, roster: Roster, colluders: Colluders, seed: Bool[Array, " n"]) -> UInt32[Array, "n m w"]:
    """The colluders' shares of the seeds of some users and of the keys of the others."""
    of_seed = seed[all_peers(quorum, roster).slot][..., None]
    return jnp.where(of_seed, colluders.shares[..., quorum.words :], colluders.shares[..., : quorum.words])


def _nobody(quorum: Quorum, roster: Roster) -> Colluders:
    n = roster.client.size
    zeros = lambda *shape: jnp.zeros((n, *shape), jnp.uint32)
    return Colluders(jnp.zeros(n, bool), zeros(quorum.words), zeros(quorum.holders, 2 * quorum.words))

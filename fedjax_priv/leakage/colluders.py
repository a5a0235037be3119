"""What colluding users tell the server."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, UInt32

from fedjax_priv.base import Cohort, Key
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.keys import named
from fedjax_priv.layers.secure_sum import sharing
from fedjax_priv.layers.secure_sum.masked_sum import Protocol
from fedjax_priv.layers.secure_sum.sharing import Quorum, Roster


class Colluders(NamedTuple):
    """Users that tell the server their secrets, and their shares of the secrets of others."""

    member: Bool[Array, " n"]
    key: UInt32[Array, "n w"]  # of the key agreement; zero for the others
    shares: UInt32[Array, "n m v"]  # of the key and the seed of each peer that dealt them one; zero for the others


def colluders_of_round(
    protocol: Protocol, key: Key, roster: Roster, member: Bool[Array, " n"], layer: str = "mask"
) -> Colluders:
    """What colluding users tell the server after a simulated round.

    A `View` holds no private rows, so the colluders' rows are drawn again, as the round drew them.

    Args:
      protocol: of the mask layer.
      key: root key of the run, as given to `step`.
      roster: `view.public[layer]`.
      member: the colluding users, by place in the cohort.
      layer: name of the mask layer.
    """
    key = named(named(jax.random.fold_in(key, roster.round[0]), "advertise"), layer)
    own, shares = _secrets(protocol.quorum, key, roster)
    return Colluders(member, *only_rows(member, (own, shares)))


@functools.partial(jax.jit, static_argnums=0)
def _secrets(quorum: Quorum, key: Key, roster: Roster) -> tuple[Array, Array]:
    ones = jnp.ones(roster.client.shape, jnp.float32)
    fresh = jnp.zeros_like(roster.client)
    who = Cohort(roster.client, roster.round, ones, roster.selected, ~roster.selected, roster.group, ones, ones, fresh)
    private = sharing.open_round(quorum, key, who)[0]
    return private.key, private.shares

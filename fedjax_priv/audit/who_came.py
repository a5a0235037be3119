"""For an adversary who sees who takes part: the trials in which the client that has the canary does."""

import functools

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv.audit.worlds import Look, Seen, marked
from fedjax_priv.base import Release
from fedjax_priv.ledger import Entry
from fedjax_priv.systems.releases import CentralNoise, NoisyBuffers


def sees_who_came(entry: Entry, release: Release) -> bool:
    """Whether the entry's figure is for somebody who knows who takes part, behind noise of the server."""
    return entry.view == "device" and isinstance(release, NoisyBuffers | CentralNoise)


def of_one_round(entry: Entry, release: Release, rounds: int) -> Entry:
    """The entry of trials in which client 0 came: in one round that is one Gaussian mechanism, whoever came with it."""
    one = rounds == 1 and entry.proved.epsilon is not None and sees_who_came(entry, release)
    return entry._replace(gaussian=entry.gaussian or one)


def where_it_came(look: Look) -> Look:
    """The same look, of trials in which client 0 is counted: in the first round, if the canary is of that one.

    Who comes depends on no data. Trials without it show nothing, and with them the adversary's figure would be tried on
    what somebody sees who does not know who takes part, which is much less.
    """

    def score(seen: Seen) -> Array:
        came = ((seen.who.client == 0) & seen.info.counted).any() & ~(look.first_round & (seen.who.round[0] > 0))
        return jnp.concatenate([jnp.ravel(look.score(seen)), came.astype(jnp.float32)[None]])

    return look._replace(score=score, finish=functools.partial(marked, finish=look.finish))

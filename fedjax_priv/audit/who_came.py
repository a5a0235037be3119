"""Selects the trials in which the canary's client takes part, for an adversary who sees who takes part."""

import functools

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv.audit.worlds import Look, Seen, marked
from fedjax_priv.base import Release
from fedjax_priv.ledger import Entry
from fedjax_priv.systems.releases import CentralNoise, NoisyBuffers


def sees_who_came(entry: Entry, release: Release) -> bool:
    """Whether the server adds the noise and the entry's adversary knows who takes part."""
    return entry.view == "device" and isinstance(release, NoisyBuffers | CentralNoise)


def of_one_round(entry: Entry, release: Release, rounds: int) -> Entry:
    """The entry for trials in which client 0 took part: one round of them is one Gaussian mechanism."""
    one = rounds == 1 and entry.proved.epsilon is not None and sees_who_came(entry, release)
    return entry._replace(gaussian=entry.gaussian or one)


def where_it_came(look: Look) -> Look:
    """The same look at trials in which client 0 is counted in some round; in the first if the canary acts only there.

    Who takes part depends on no data, so trials may be selected by it. Trials without client 0 show nothing: keeping
    them would test the figure with the view of a weaker adversary, who does not know who takes part.
    """

    def score(seen: Seen) -> Array:
        came = ((seen.who.client == 0) & seen.info.counted).any() & ~(look.first_round & (seen.who.round[0] > 0))
        return jnp.concatenate([jnp.ravel(look.score(seen)), came.astype(jnp.float32)[None]])

    return look._replace(score=score, finish=functools.partial(marked, finish=look.finish))

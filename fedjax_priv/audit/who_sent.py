"""Whether trials can show anything of the canary's client, and have the law that a figure is about.

What is counted depends on no data: who takes part, and whose upload arrives.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from fedjax_priv.audit.worlds import Seen, Worlds
from fedjax_priv.base import Cohort, Release, absent
from fedjax_priv.ledger import Entry
from fedjax_priv.systems.releases import DistributedNoise, LocalNoise


def sent(seen: Seen) -> Float32[Array, " 2"]:
    """Honest uploads of a round that arrived and are valid: of client 0, and of all clients."""
    alive = seen.info.observed.alive
    there = (seen.info.counted if absent(alive) else alive) & ~seen.who.byzantine
    return jnp.stack([(there & (seen.who.client == 0)).sum(), there.sum()]).astype(jnp.float32)


def drawn(who: Cohort) -> Float32[Array, " 2"]:
    """Honest clients of a round who may send: client 0, and all clients. No more than these are in `sent`."""
    there = who.selected & ~who.byzantine
    return jnp.stack([(there & (who.client == 0)).sum(), there.sum()]).astype(jnp.float32)


def check_sent(uploads: Worlds, entries: Sequence[Entry], release: Release, rounds: int) -> None:
    """Refuses trials of which an audit would find nothing, or whose figures are not those of the ledger.

    Args:
      uploads: `sent` of the trials on each input, summed over rounds, `[trials, 2]`; or `drawn` of them, which is
        known before any trial is run.
      entries: that are audited.
      release: of the system.
      rounds: of a trial.

    Raises:
      ValueError: client 0 sent in no trial; or a figure depends on who sent, which differs from trial to trial.
    """
    own, every = np.concatenate(uploads).astype(int).T
    if not own.any():
        raise ValueError(
            "subject must be a system in which client 0, which has the canary, can send an honest upload that arrives: "
            f"it sent none in {own.size} runs of {rounds} {'round' if rounds == 1 else 'rounds'}"
        )
    if rounds > 1 and np.ptp(own) and any(map(_counts_rounds, entries)):
        raise ValueError(
            "rounds must be 1 where a figure counts the rounds of a client and these are random, got "
            f"{rounds}: client 0 sent in {own.min()} to {own.max()} of them"
        )
    if np.ptp(every) and any(_counts_uploads(entry, release) for entry in entries):
        raise ValueError(
            "subject must be a system that loses no upload and has as many clients in each round, where a figure "
            "counts the uploads with noise in a sum; runs had "
            f"{every.min()} to {every.max()} uploads"
        )


def _counts_rounds(entry: Entry) -> bool:
    """Whether a figure is of each client, by the rounds in which it took part."""
    return any(np.ndim(figure.epsilon) for figure in (entry.claimed, entry.proved) if figure.epsilon is not None)


def _counts_uploads(entry: Entry, release: Release) -> bool:
    """Whether the proved eps depends on how many other clients' noise is in a sum."""
    noise = getattr(release, "noise", release)
    summed = noise.group_size > 1 if isinstance(noise, DistributedNoise) else isinstance(noise, LocalNoise)
    return summed and entry.proved.epsilon is not None and entry.view != "everybody"

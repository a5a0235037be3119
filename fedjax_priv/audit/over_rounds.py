"""The best score for noise that is correlated over rounds: it weights rounds so that the least noise remains.

D is the reading of each round along the canary, and p the rounds in which the canary takes part. The score is
`<C p, C D>`, with the matrix C that the noise process states. If the system is sound, it is a Gaussian mechanism with
mu proportional to `||C p||` over the noise multiplier, and no test of D is better. Scores of single rounds, or their
sum, are much worse.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fedjax_priv.audit import adversaries
from fedjax_priv.audit.worlds import Look, Seen
from fedjax_priv.ledger.correlated_noise import noise_rows
from fedjax_priv.systems.releases import CentralNoise
from fedjax_priv.theory.correlated_noise import matched_filter


def over_rounds(look: Look, release: CentralNoise, rounds: int, *, known: bool) -> Look:
    """A look at the same runs, read round by round along the canary: the best statistic, then each round alone.

    Args:
      look: its canary has one direction, in all rounds or in the first one.
      release: of the system; its stated `correlation` is trusted.
      rounds: of a run.
      known: True: the adversary sees who takes part. False: it knows the rounds in which client 0 may take part.
    """
    every = release.participation.separation

    def score(seen: Seen) -> Array:
        read = look.canary.toward(seen.before) @ adversaries.direction(seen)
        came = ((seen.who.client == 0) & seen.info.counted).any()
        taken = (came if known else seen.who.round[0] % every == 0) & ~(look.first_round & (seen.who.round[0] > 0))
        now = jax.nn.one_hot(seen.who.round[0], rounds)
        return jnp.concatenate([read * now, jnp.where(taken, now, 0.0)])

    finish = functools.partial(_weighted, noise_rows(release.correlation, rounds))
    return look._replace(name=f"{look.name}, over rounds", score=score, finish=finish)


def _weighted(rows: np.ndarray, found: np.ndarray) -> np.ndarray:
    """`[trials, 2 n]`, n readings and in which rounds client 0 took part, to `[trials, 1 + n]`."""
    read, taken = np.split(found.astype(np.float64), 2, axis=1)
    best = (matched_filter(rows, taken) * read).sum(1)
    return np.column_stack([best, read])

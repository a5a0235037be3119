"""Scores with many columns: an adversary can derive more than one number from what it reads.

A reading is an adversary's vector `[d]`, multiplied by the direction u in which the two inputs differ. If the noise is
as stated, its sum over all coordinates is the strongest score. Missing noise shows in a block of coordinates or in a
single one, and noise that is used twice shows in the difference of two rounds.
"""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from fedjax_priv.audit.worlds import Score, Seen

Toward = Callable[[PyTree], Array]
Vector = Callable[[Seen], Float[Array, " d"]]
Reading = Callable[[Seen, Float[Array, " d"]], tuple[Array, Float[Array, " d"]]]
"""`(seen, u) -> (statistic, terms)`: a statistic of the whole vector along u, and one term `[d]` per coordinate."""
_MOST_COORDINATES = 1024
"""At most so many coordinates are looked at one by one."""
_EVERY_ROUND, _MOST_ROUNDS = 8, 15
"""The first round is compared with 15 later rounds, or all if fewer: the next 8, and others up to the last."""


def along(vector: Vector) -> Reading:
    """The reading of a vector: its inner product with u, and the terms of this sum."""

    def reading(seen: Seen, u: Array) -> tuple[Array, Array]:
        terms = u * vector(seen)
        return terms.sum(), terms

    return reading


def spread(readings: Sequence[Reading], toward: Toward, most: int = _MOST_COORDINATES) -> Score:
    """For each reading: the statistic, sums over four blocks, and at most `most` single coordinates."""

    def score(seen: Seen) -> Array:
        found = [reading(seen, toward(seen.before)) for reading in readings]
        return jnp.concatenate([column for total, terms in found for column in (total[None], parts(terms, most))])

    return score


def at_variant(readings: Sequence[Reading], toward: Toward, variant: int) -> Score:
    """For each reading, the statistic along this variant's direction; last, whether the run is of this variant."""

    def score(seen: Seen) -> Array:
        found = [reading(seen, toward(seen.before)[variant])[0] for reading in readings]
        return jnp.stack([*found, (seen.variant == variant).astype(jnp.float32)])

    return score


def between_rounds(readings: Sequence[Reading], toward: Toward, rounds: int) -> Score:
    """Differences and sums of the first round and each later one, for a canary that acts in the first round only.

    Noise that is used twice cancels in the difference; antithetic noise cancels in the sum. The more rounds there are,
    the fewer single coordinates are looked at.
    """
    later = _later(rounds)
    score = spread(readings, toward, min(_MOST_COORDINATES, 2 * _MOST_COORDINATES // len(later)))
    other = np.eye(rounds, dtype=np.float32)[later]
    first = np.eye(rounds, dtype=np.float32)[0]
    weights = jnp.asarray(np.concatenate([first - other, first + other]))
    return lambda seen: (weights[:, seen.who.round[0], None] * score(seen)[None]).ravel()


def _later(rounds: int) -> np.ndarray:
    """The rounds with which the first one is compared."""
    if rounds - 1 <= _MOST_ROUNDS:
        return np.arange(1, rounds)
    far = np.linspace(_EVERY_ROUND + 1, rounds - 1, _MOST_ROUNDS - _EVERY_ROUND).astype(int)
    return np.concatenate([np.arange(1, _EVERY_ROUND + 1), far])


def parts(terms: Float[Array, " d"], most: int) -> Float[Array, " s"]:
    """Sums over the first half, the second half, even and odd coordinates; then single coordinates."""
    d = terms.size
    blocks = [terms[: d // 2], terms[d // 2 :], terms[::2], terms[1::2]]
    return jnp.concatenate([jnp.stack([block.sum() for block in blocks]), terms[looked_at(d, most)]])


def looked_at(d: int, most: int) -> np.ndarray:
    """At most `most` coordinates, spread evenly, the first two and the last two included."""
    if d <= most:
        return np.arange(d)
    return np.unique(np.concatenate([[0, d - 1], np.linspace(1, d - 2, most - 2).astype(int)]))

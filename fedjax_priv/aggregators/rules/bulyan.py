"""Bulyan: Krum picks rows one by one, and of those the values nearest to the median count, by coordinate."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.around_median import mean_around_median
from fedjax_priv.aggregators.numerics.row_distances import distances
from fedjax_priv.aggregators.rule_parts import rule
from fedjax_priv.base import Aggregator
from fedjax_priv.base.given_rows import NO_DIRECTION

NOT_COUNTED = 2
"""A score leaves out `f` plus this many of the rows that are left, as in Krum."""


def bulyan(num_byzantine: int) -> Aggregator:
    """Bulyan of Krum on rows `[g, d]` (El Mhamdi et al. 2018).

    `theta = M - 2f` times the winner of Krum among the `m` rows left, with the nearest `m - f - 2` others, is picked
    and removed. For each coordinate the direction is the mean of the `theta - 2f` values of picked rows that are
    nearest to their median. It tolerates `f` Byzantine rows if `M >= 4f + 3`; for `4f < M < 4f + 3` it returns a
    direction without a guarantee.

    The last pick counts `f - 1` neighbours, none if f = 1: the first row left is taken. Ties go to the first row;
    values equally far from the median count in part. A row that is not finite, or 1e23 times as far as the middle one,
    is picked after all others.

    Args:
      num_byzantine: Byzantine rows to tolerate, `f`; if `4f >= M`, the direction is NaN.

    Raises:
      ValueError: `num_byzantine` is not an integer >= 0.

    Examples:
      >>> print(bulyan(1)([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [99.0]]))
      [3.]
    """
    _validate.integer(at_least=0, num_byzantine=num_byzantine)

    def direct(rows: Array, ok: Array) -> Array:
        theta = ok.sum() - 2 * num_byzantine
        picked = _picks(distances(rows, ok), ok, theta, num_byzantine)
        return mean_around_median(rows, picked, theta - 2 * num_byzantine)

    def most_byzantine(num_rows: int) -> int:
        if num_rows <= 4 * num_byzantine:
            return NO_DIRECTION
        return num_byzantine if num_rows >= 4 * num_byzantine + 3 else 0

    return rule(direct, most_byzantine, steady=True)


def _picks(
    distance: Float[Array, "g g"], ok: Bool[Array, " g"], how_many: Int[Array, ""], num_byzantine: int
) -> Bool[Array, " g"]:
    """Rows that win, one after the other; distances are sorted once, however many there are."""
    num_rows = ok.size
    near, place = jnp.isfinite(jnp.diagonal(distance)), jnp.arange(num_rows)
    largest = jnp.finfo(distance.dtype).max
    others = jnp.where(ok[None, :], jnp.where(jnp.eye(num_rows, dtype=bool), jnp.inf, distance), jnp.nan)
    rank = jnp.argsort(jnp.argsort(others, 1), 1)  # rows that are not there, NaN, come after all others

    def pick(number: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        left, last = now  # of each row, the rank of the furthest other that counts
        counted = left[None, :] & (rank <= last[:, None])
        score = jnp.minimum(jnp.where(counted, others, 0.0).sum(1), largest)
        winner = jnp.argmin(jnp.where(left, jnp.where(near, score, largest), jnp.inf))
        left &= (place != winner) | (number >= how_many)
        one_less = jnp.where(rank[:, winner] > last, last - 1, last)  # one fewer counts: the winner, or the furthest
        return left, jnp.where(left[None, :] & (rank <= one_less[:, None]), rank, -1).max(1)

    start = ok, jnp.full(num_rows, ok.sum() - num_byzantine - NOT_COUNTED - 1)
    return ok & ~lax.fori_loop(0, max(num_rows - 2 * num_byzantine, 0), pick, start)[0]

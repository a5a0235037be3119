"""Divide and conquer: leaves out the rows that stand out along the direction of most variance."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv._devices import finite_rows
from fedjax_priv.aggregators.numerics.covariance import about_mean, top_pair
from fedjax_priv.aggregators.numerics.row_distances import both, geometry
from fedjax_priv.aggregators.rule_parts import checked_direction, mean_of, minority, rows_of, smallest
from fedjax_priv.base import Aggregator, Key, Received, absent
from fedjax_priv.base.given_rows import NO_DIRECTION
from fedjax_priv.crypto.prg import bits
from fedjax_priv.keys import named


def dnc(num_byzantine: int, *, removed: int | None = None, coordinates: int = 1000, passes: int = 1) -> Aggregator:
    """The mean of the rows `[g, d]` that every pass keeps (Shejwalkar and Houmansadr 2021, DnC).

    A pass takes random coordinates of the rows and scores each row by `<b_l - mean, v>^2`, where v is the direction in
    which rows vary most. It keeps all but the `removed` rows of largest score; ties go to the first row. If several
    directions vary most, v is one of them. If no row is kept by all passes, the direction is NaN. A row that is not
    finite, or whose drawn coordinates are 1e23 times as far as those of the middle row, is left out first.

    If all coordinates are looked at, it tolerates one Byzantine row, and `f` equal ones. There is no bound for others:
    all passes score all rows, so a row that is far away hides one that is less far, and that one is averaged. `caf`
    looks again after each row that it leaves out. If rows are longer than `coordinates`, there is no bound for one row
    either: one that is far in a coordinate which no pass draws is averaged, however far it is. k passes of b of d
    coordinates draw it with probability `1 - (1 - b/d)^k`.

    Args:
      num_byzantine: Byzantine rows to tolerate, `f`; if `2f >= M`, the direction is NaN.
      removed: rows a pass leaves out, the authors' `c f`; `f` if not given. If it is M or more, the direction is NaN;
        with fewer than f, none is tolerated.
      coordinates: coordinates drawn in a pass; of rows no longer than that all are taken, and nothing is drawn.
      passes: how many, the authors' `niters`.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> print(dnc(1)([[1.0], [2.0], [3.0], [99.0]], key=jax.random.key(0)))
      [2.]
    """
    tolerated = minority(num_byzantine)
    if removed is not None:
        _validate.integer(at_least=0, removed=removed)
    _validate.integer(coordinates=coordinates)
    _validate.integer(passes=passes)
    left_out = num_byzantine if removed is None else removed

    def most_byzantine(num_rows: int) -> int:
        most = tolerated(num_rows) if left_out < num_rows else NO_DIRECTION
        return min(most, 0) if left_out < num_byzantine else most

    def apply(key: Key, state: tuple, received: Received) -> tuple[Array, tuple]:
        rows, ok = rows_of(received), received.count > 0
        finite = ok & finite_rows(rows)
        kept = known = jnp.ones_like(ok)
        for number in range(passes):
            score = _scores(_some_columns(named(key, f"pass {number}"), rows, received.used, coordinates), finite)
            kept &= smallest(score, ok.sum() - left_out)
            known &= jnp.isfinite(score)
        direction = jnp.where((known | ~kept).all() & kept.any(), mean_of(kept, rows), jnp.nan)
        return checked_direction(direction, ok, most_byzantine), state

    return Aggregator(lambda d: (), apply, most_byzantine, steady=True)


def _some_columns(key: Key, rows: Float[Array, "g d"], used: PyTree, how_many: int) -> Float[Array, "g k"]:
    num_columns = rows.shape[1]
    if num_columns <= how_many:
        return rows
    rank = bits(key, "columns", (num_columns,))
    rank = rank if absent(used) else jnp.where(used, rank, 0)
    return rows[:, jax.lax.top_k(rank, how_many)[1]]


def _scores(rows: Array, ok: Array) -> Float[Array, " g"]:
    """`u_l^2`, in proportion to `<b_l - mean, v>^2`, where u is the top eigenvector of the inner products of centred
    rows; infinite for a row that is not near the others. The eigenvalue may overflow, and is the same for all.
    """
    places = geometry(rows, ok)
    centred = about_mean(places.gram, places.near.astype(rows.dtype))
    _, vector = top_pair(jnp.where(both(places.near), centred, 0.0))
    return jnp.where(places.near, jnp.square(vector), jnp.inf)

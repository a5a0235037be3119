"""CAF: lowers the weights of outliers until the covariance of the rows is small."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.column_blocks import weighted_sum
from fedjax_priv.aggregators.numerics.covariance import down_weigh, top_variance
from fedjax_priv.aggregators.numerics.row_distances import geometry
from fedjax_priv.aggregators.rule_parts import minority, rule
from fedjax_priv.base import Aggregator


class _Pass(NamedTuple):
    number: Array
    weights: Array
    best: Array
    least: Array


MOST_PASSES = 1000
"""Limit for `compared="all"`, where a pass need not remove a row."""


def caf(num_byzantine: int, *, compared: Literal["kept", "all"] = "kept") -> Aggregator:
    """Covariance bound agnostic filter: a weighted mean (Allouah, Guerraoui and Stephan 2025, CAF).

    All weights start at 1. While they sum to more than `M - 2f`: `w_l <- w_l (1 - tau_l / max tau)`, where `tau_l` is
    the squared component of the row minus the mean along the top eigenvector of the weighted covariance. The direction
    is the weighted mean of the pass with the least top eigenvalue. The eigenvector is exact; ByzFL takes one step of a
    power iteration from a random start. Rows that are not finite, or infinitely far, start with weight 0.

    Args:
      num_byzantine: Byzantine rows to tolerate, `f`; if `2f >= M`, the direction is NaN. 0 gives the mean.
      compared: the rows over which `max tau` is taken. `"kept"`: those with a weight, so each pass removes a row and
        `2f` passes are enough. `"all"`: all rows, as in ByzFL, in at most 1,000 passes; a removed row that is far away
        then keeps the others from losing weight, so of several Byzantine rows only one is tolerated.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> print(caf(1)([[1.0], [2.0], [3.0], [99.0]]).round(2))  # the weights of near rows fall a little, too
      [2.01]
    """
    _validate.one_of(("kept", "all"), compared=compared)
    tolerated = minority(num_byzantine)
    most = tolerated if compared == "kept" else lambda num_rows: min(tolerated(num_rows), 1)
    most_passes = 2 * num_byzantine if compared == "kept" else MOST_PASSES

    def direct(rows: Array, ok: Array) -> Array:
        places = geometry(rows, ok)
        first = places.near.astype(rows.dtype)
        least_left = (ok.sum() - 2 * num_byzantine).astype(rows.dtype)

        def filtered(now: _Pass) -> _Pass:
            value, along = top_variance(places.gram, now.weights)
            better = value < now.least
            return _Pass(
                now.number + 1,
                down_weigh(now.weights, along, now.weights > 0 if compared == "kept" else places.near),
                jnp.where(better, now.weights, now.best),
                jnp.minimum(value, now.least),
            )

        def unfinished(now: _Pass) -> Array:
            return (now.weights.sum() > least_left) & (now.number < most_passes)

        done = lax.while_loop(unfinished, filtered, _Pass(jnp.int32(0), first, first, jnp.float32(jnp.inf)))
        return weighted_sum(done.best / done.best.sum(), rows)

    return rule(direct, most, equivariant=True)

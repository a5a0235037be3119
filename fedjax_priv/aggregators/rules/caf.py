"""Rows weighed down until they spread little, from their covariance."""

from typing import NamedTuple

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
"""For `compared="all"`, where a pass need not take a row out."""


def caf(num_byzantine: int, *, compared: str = "kept") -> Aggregator:
    """Covariance bound agnostic filter: a weighted mean (Allouah, Guerraoui and Stephan 2025, CAF).

    From weights of 1, while they sum to more than `M - 2f`: `w_l <- w_l (1 - tau_l / max tau)`, `tau_l` the squared
    component of the row, without the mean, along the top eigenvector of the weighted covariance. The direction is the
    weighted mean with the least largest eigenvalue on the way. The eigenvector is exact here; ByzFL takes one step of
    a power iteration from a random start in its place. Rows that are not finite, or beyond 1e19, start from 0.

    Args:
      num_byzantine: `f`; where `2f >= M`, the direction is NaN. With 0 it is the mean.
      compared: the rows of which `max tau` is the largest: those with a weight (`"kept"`), so that each pass takes one
        out and `2f` are enough; or `"all"`, as in ByzFL, in 1,000 passes at most. A row taken out, if far away, then
        keeps others from losing weight.

    Raises:
      ValueError: an argument is out of range.
    """
    _validate.one_of(("kept", "all"), compared=compared)
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

    return rule(direct, minority(num_byzantine))

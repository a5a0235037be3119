"""Krum and multi-Krum: the row, or rows, closest to their neighbours."""

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.row_distances import distances
from fedjax_priv.aggregators.rule_parts import mean_of_smallest, rule
from fedjax_priv.base import Aggregator
from fedjax_priv.base.given_rows import NO_DIRECTION

Scored = Literal["blanchard", "byzfl"]
"""Whose score of a row: how many of its neighbours count."""
_NOT_COUNTED: dict[Scored, int] = {"blanchard": 2, "byzfl": 1}
"""A score leaves out `f` plus this many of the M rows."""


def krum(num_byzantine: int, *, neighbours: Scored = "blanchard") -> Aggregator:
    """The row `[d]` with the least sum of squared distances to its nearest other rows (Blanchard et al. 2017).

    Ties go to the first row. It tolerates `f` Byzantine rows of `M` if `2f + 2 < M` (their condition). For `M = 2f + 2`
    it returns a direction that only `theory.robust_rules.krum_kappa` bounds, and for `M = 2f + 1` one that equal
    Byzantine rows take anywhere. A row that is not finite, or 1e23 times as far as the middle one, is infinitely far.

    Args:
      num_byzantine: Byzantine rows to tolerate, `f`; if `2f >= M` or a score counts no neighbour, the direction is NaN.
      neighbours: rows that a score counts: the nearest `M - f - 2` (`"blanchard"`) or `M - f - 1` (`"byzfl"`, which
        tolerates `f` if `2f < M`).

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> print(krum(1)([[1.0], [1.5], [2.5], [3.5], [99.0]]))
      [1.5]
    """
    return multi_krum(num_byzantine, selected=1, neighbours=neighbours)


def multi_krum(num_byzantine: int, *, selected: int | None = None, neighbours: Scored = "blanchard") -> Aggregator:
    """The mean of the rows with the least scores in the sense of `krum` (Blanchard et al. 2017).

    Args:
      num_byzantine: Byzantine rows to tolerate, `f`.
      selected: rows to average; `M - f` if not given. If it is more than `M - f`, the direction is NaN.
      neighbours: as in `krum`.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> print(multi_krum(1)([[1.0], [2.0], [3.0], [4.0], [99.0]]))
      [2.5]
    """
    _validate.integer(at_least=0, num_byzantine=num_byzantine)
    _validate.one_of(_NOT_COUNTED, neighbours=neighbours)
    if selected is not None:
        _validate.integer(selected=selected)
    excess = _NOT_COUNTED[neighbours]

    def direct(rows: Array, ok: Array) -> Array:
        honest = ok.sum() - num_byzantine
        score = _scores(distances(rows, ok), honest - excess)
        return mean_of_smallest(score, honest if selected is None else jnp.int32(selected), rows)

    return rule(direct, _tolerated(num_byzantine, excess, selected or 1), equivariant=True)


def _scores(distance: Array, counted: Array) -> Array:
    """Sums of the smallest distances to others; infinite for a row that is infinitely far."""
    num_rows = len(distance)
    others = jnp.sort(jnp.where(jnp.eye(num_rows, dtype=bool), jnp.inf, distance), 1)
    return jnp.where(jnp.arange(num_rows) < counted, others, 0.0).sum(1)


def _tolerated(num_byzantine: int, excess: int, selected: int) -> Callable[[int], int]:
    def most_byzantine(num_rows: int) -> int:
        honest = num_rows - num_byzantine
        if 2 * num_byzantine >= num_rows or honest - excess < 1 or selected > honest:
            return NO_DIRECTION
        return num_byzantine if 2 * num_byzantine + 2 * (excess - 1) < num_rows else 0

    return most_byzantine

"""MoNNA: the mean of the rows nearest to a trusted one."""

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators.rule_parts import mean_of_smallest, minority, rule
from fedjax_priv.base import Aggregator
from fedjax_priv.engine.row_norms import norms


def monna(num_byzantine: int, *, pivot: int = 0) -> Aggregator:
    """The mean of the `M - f` rows nearest to row `pivot`, itself included (Farhadkhani et al. 2023, MoNNA).

    It tolerates `f` Byzantine rows of `M > 2f` if the pivot is honest, as a node's own row is. Ties go to the first
    row.

    Args:
      num_byzantine: Byzantine rows to tolerate, `f`; if `2f >= M`, the direction is NaN.
      pivot: index of the trusted row among all `g`; if that row is missing or not finite, the direction is NaN. In a
        system it must be an honest client; clients 0 to f - 1 are Byzantine there unless told otherwise: `pivot=f`.

    Raises:
      ValueError: an argument is out of range, or `pivot >= g`.

    Examples:
      >>> print(monna(1)([[3.0], [2.0], [1.0], [99.0]]))  # the first row is trusted
      [2.]
    """
    pivot = _validate.integer(at_least=0, pivot=pivot)

    def direct(rows: Array, ok: Array) -> Array:
        if pivot >= len(rows):
            raise ValueError(f"pivot must be the index of a row, below {len(rows)}, got {pivot}")
        distance = norms(rows - rows[pivot][None, :])
        known = jnp.where(ok & ok[pivot], distance, jnp.inf)
        return mean_of_smallest(known, ok.sum() - num_byzantine, rows)

    return rule(direct, minority(num_byzantine), trusted_row=pivot, equivariant=True)

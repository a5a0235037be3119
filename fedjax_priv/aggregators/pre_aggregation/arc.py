"""Clipping to a norm that the rows themselves determine."""

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv.aggregators.pre_aggregation.clipping import clipped
from fedjax_priv.aggregators.pre_aggregation.pre_aggregator import PreAggregator
from fedjax_priv.aggregators.rule_parts import by_count, minority
from fedjax_priv.base import Key
from fedjax_priv.engine.row_norms import norms


def arc(num_byzantine: int) -> PreAggregator:
    """Adaptive robust clipping: clips the `floor(2f (M - f) / M)` longest rows to the next norm (Allouah et al. 2025).

    A row that is not finite becomes NaN.

    Args:
      num_byzantine: `f`, which the rule that follows must tolerate too; if `2f >= M`, the direction is NaN.

    Raises:
      ValueError: `num_byzantine` is not an integer >= 0.

    Examples:
      >>> rule = pre_aggregated(arc(1), mean())
      >>> print(rule([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 90.0]]))  # the longest row gets length 1
      [0.5 0.5]
    """
    kept = lambda m: m - 2 * num_byzantine * (m - num_byzantine) // m if m > num_byzantine else m

    def apply(key: Key, rows: Array, ok: Array) -> tuple[Array, Array]:
        del key
        norm = norms(rows)
        ordered = jnp.sort(jnp.where(ok & ~jnp.isnan(norm), norm, jnp.inf))
        return clipped(rows, norm, ordered[by_count(kept, ok) - 1]), ok

    return PreAggregator(apply, minority(num_byzantine), equivariant=True)

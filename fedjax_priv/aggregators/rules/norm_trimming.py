"""The mean of the rows with the smallest norms."""

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators.rule_parts import by_count, mean_of_smallest, rule
from fedjax_priv.base import Aggregator
from fedjax_priv.engine.rounded_fractions import part_of
from fedjax_priv.engine.row_norms import norms


def norm_trimming(fraction: float) -> Aggregator:
    """The mean of the `ceil((1 - fraction) M)` rows `[g, d]` of smallest norm (Ghosh et al. 2021, RCGD).

    It tolerates `floor(fraction M)` Byzantine rows; each of them can still be as long as an honest row. Ties go to the
    first row. A row that is not finite counts as the longest.

    Args:
      fraction: fraction of the rows left out, those of largest norm, in [0, 1/2).

    Raises:
      ValueError: `fraction` is out of range.

    Examples:
      >>> print(norm_trimming(0.25)([[1.0], [2.0], [3.0], [99.0]]))
      [2.]
    """
    _validate.below_half(fraction=fraction)

    def direct(rows: Array, ok: Array) -> Array:
        kept = by_count(lambda m: m - part_of(fraction, m), ok)
        return mean_of_smallest(jnp.where(ok, norms(rows), jnp.inf), kept, rows)

    return rule(direct, lambda num_rows: part_of(fraction, num_rows), equivariant=True)

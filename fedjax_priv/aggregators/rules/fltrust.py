"""FLTrust: rows are scaled to the length of the server's update and weighted by their cosine with it, if positive."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv._devices import finite_rows
from fedjax_priv.aggregators.numerics.column_blocks import weighted_sum
from fedjax_priv.aggregators.rule_parts import rule
from fedjax_priv.base import Aggregator
from fedjax_priv.engine.row_norms import largest_entries, norms, unit_scale


def fltrust(*, pivot: int = 0) -> Aggregator:
    """`sum_l T_l (||b_0|| / ||b_l||) b_l / sum_l T_l`, with `T_l = max(0, cos(b_l, b_0))` (Cao et al. 2021).

    `b_0` is row `pivot` of `[g, d]`, the server's own update on data that it trusts; it is not averaged. In a round it
    is the upload of the client that holds these data. On arrays: `fltrust()(np.vstack([reference, rows]))`.

    The direction is no longer than the reference and at most a right angle away from it, whatever all other `M - 1`
    rows hold. In that sense it tolerates as many Byzantine rows, a majority too; it need not be near the honest ones.
    If every `T_l` is 0, the direction is 0. A row that is 0 or not finite has `T_l = 0`.

    Args:
      pivot: index of the trusted row among all `g`; if that row is missing or not finite, the direction is NaN. In a
        system it must be an honest client; clients 0 to f - 1 are Byzantine there unless told otherwise: `pivot=f`.

    Raises:
      ValueError: `pivot` is not an integer >= 0, or `pivot >= g`.

    Examples:
      >>> print(fltrust()([[1.0, 0.0], [5.0, 0.0], [-9.0, 0.0]]))  # the first row is trusted
      [1. 0.]
    """
    pivot = _validate.integer(at_least=0, pivot=pivot)

    def direct(rows: Array, ok: Array) -> Array:
        if pivot >= len(rows):
            raise ValueError(f"pivot must be the index of a row, below {len(rows)}, got {pivot}")
        scaled = rows * unit_scale(largest_entries(rows))[:, None]  # a ratio of lengths of rows may overflow
        length, reference = norms(scaled), norms(rows[pivot][None])[0]
        others = ok & finite_rows(rows) & (jnp.arange(len(rows)) != pivot)
        trust = jnp.where(others, jnp.maximum(_cosines(scaled, length, pivot), 0.0), 0.0)
        total = trust.sum()
        weights = trust / jnp.where(total > 0, total, 1.0) / jnp.where(trust > 0, length, 1.0)
        return jnp.where(ok[pivot] & jnp.isfinite(reference), reference * weighted_sum(weights, scaled), jnp.nan)

    return rule(direct, lambda num_rows: max(num_rows - 1, 0), trusted_row=pivot, equivariant=True)


def _cosines(rows: Float[Array, "g d"], length: Float[Array, " g"], pivot: int) -> Float[Array, " g"]:
    """Of each row with row `pivot`; 0 for a row that is 0."""
    product = length * length[pivot]
    return (rows * rows[pivot][None]).sum(1) / jnp.where(product > 0, product, 1.0)

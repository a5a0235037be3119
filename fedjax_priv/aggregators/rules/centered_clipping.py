"""Centered clipping: moves a centre along clipped differences."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.column_blocks import gram, weighted_sum
from fedjax_priv.aggregators.numerics.row_distances import FAR, both, distances_to_sum
from fedjax_priv.aggregators.rule_parts import fewer_than_half
from fedjax_priv.base import Aggregator, Key, Received
from fedjax_priv.engine.row_norms import unit_scale


def centered_clipping(radius: float | Array = 0.5, steps: int = 5, start: str = "previous") -> Aggregator:
    """`v <- v + (1/M) sum_l (b_l - v) min(1, radius / ||b_l - v||)` (Karimireddy et al. 2021).

    One call moves `v` by at most `steps * radius`, whatever the rows `[g, d]` hold, and returns the last `v`. A row
    that is not finite, or farther than 1e18 times the radius, counts in `M` but does not move `v`.
    The rule tolerates any minority of Byzantine rows, with an error proportional to the radius.

    Args:
      radius: the most a row can move the centre `v` (`tau`); the default is FedREP's, ByzFL's is 100.
      steps: iterations; 5 in FedREP, 1 in ByzFL.
      start: the first centre. `"previous"`: the direction of the last call, kept as state, at first zero. `"zero"`:
        always zero.

    Raises:
      ValueError: an argument is out of range.
    """
    tau = _validate.positive(radius=radius)
    _validate.integer(steps=steps)
    _validate.one_of(("previous", "zero"), start=start)
    carries = start == "previous"

    def init(d: int) -> PyTree:
        return jnp.zeros(d) if carries else ()

    def apply(key: Key, state: PyTree, received: Received) -> tuple[Array, PyTree]:
        del key
        rows, ok = received.value, received.count
        origin = state if carries else jnp.zeros_like(rows[0])
        scale = unit_scale(jnp.asarray(tau, rows.dtype))
        coefficients = _coefficients(gram(rows, origin, scale), ok > 0, tau * scale, steps)
        moved = (1 - coefficients.sum()) * origin + weighted_sum(coefficients, rows)
        return jnp.where((ok > 0).any(), moved, jnp.zeros_like(moved)), moved if carries else ()

    return Aggregator(init, apply, fewer_than_half)


def _coefficients(products: Array, ok: Array, tau: float | Array, steps: int) -> Array:
    """Coefficients `c` of the last centre, `origin + sum_l c_l (b_l - origin)`."""
    near = ok & (jnp.diagonal(products) < FAR)
    products = jnp.where(both(near), products, 0.0)
    num_rows = jnp.maximum(ok.sum(), 1).astype(products.dtype)

    def step(_: Array, coefficients: Array) -> Array:
        pull = jnp.where(near, jnp.minimum(1.0, tau / distances_to_sum(products, coefficients)), 0.0) / num_rows
        return coefficients * (1 - pull.sum()) + pull

    return lax.fori_loop(0, steps, step, jnp.zeros(ok.size))

"""Centered clipping: moves a centre along clipped differences, of all rows at once or of bucket after bucket."""

from collections.abc import Callable
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.column_blocks import gram, weighted_sum
from fedjax_priv.aggregators.numerics.row_distances import FAR, both, distances_to_sum
from fedjax_priv.aggregators.rule_parts import fewer_than_half, rows_of
from fedjax_priv.base import Aggregator, Key, Received
from fedjax_priv.engine.row_norms import unit_scale

Start = Literal["previous", "zero"]
"""The first centre of a call: where the last one ended, or zero."""


def centered_clipping(radius: float | Array = 0.5, steps: int = 5, start: Start = "previous") -> Aggregator:
    """`v <- v + (1/M) sum_l (b_l - v) min(1, radius / ||b_l - v||)` (Karimireddy et al. 2021).

    One call moves `v` by at most `steps * radius`, whatever the rows `[g, d]` hold, and returns the last `v`. A row
    that is not finite, or farther than 1e18 times the radius, counts in `M` but does not move `v`.

    By what they hold, f Byzantine rows of M move the direction of a call by at most `2 steps radius f / M`. That is no
    bound on its distance from the honest rows: it does not reach them if they are farther than `steps * radius` from
    where a call starts.

    Args:
      radius: the most a row can move the centre `v` (`tau`); the default is FedREP's, ByzFL's is 100.
      steps: iterations; 5 in FedREP, 1 in ByzFL.
      start: the first centre. `"previous"`: the direction of the last call, kept as state, at first zero. `"zero"`:
        always zero.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> print(centered_clipping(radius=1.0, steps=1)([[1.0], [0.5], [0.5], [99.0]]))  # from 0; the last counts as 1
      [0.75]
    """
    _validate.integer(steps=steps)
    return _clipping(radius, start, lambda key, ok: jnp.broadcast_to(ok, (steps, ok.size)))


def sequential_centered_clipping(radius: float | Array = 0.5, *, size: int, start: Start = "previous") -> Aggregator:
    """Centered clipping of random buckets, one after the other (Ozfatura, Ozfatura, Kupcu and Gunduz 2024).

    `v <- v + mean over the bucket of (b_l - v) min(1, radius / ||b_l - v||)`, once for each bucket of `size` of the `M`
    rows `[g, d]` in a random order; the last bucket may be smaller. One call moves `v` by at most `radius ceil(M /
    size)`, and returns the last `v`. A row that is not finite, or farther than 1e18 times the radius, counts in its
    bucket but does not move `v`. With `size >= M` it is one step of `centered_clipping`.

    A bucket may hold Byzantine rows only, so f of them move the direction of a call by up to `2 radius` for each bucket
    that holds one, at most by `2 radius min(f, ceil(M / size))`.

    Args:
      radius: the most a bucket can move the centre `v` (`tau`).
      size: rows in a bucket.
      start: as in `centered_clipping`.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> rule = sequential_centered_clipping(radius=1.0, size=2)
      >>> print(rule([[99.0], [99.0], [99.0], [99.0]], key=jax.random.key(0)))  # two buckets, each moves it by 1
      [2.]
    """
    _validate.integer(size=size)

    def buckets(key: Key, ok: Array) -> Array:
        """Present rows come first in the order, so only the last bucket is smaller."""
        drawn = jax.random.permutation(key, ok.size) + jnp.where(ok, 0, ok.size)
        bucket = jnp.argsort(jnp.argsort(drawn)) // size
        return ok[None, :] & (bucket[None, :] == jnp.arange(-(-ok.size // size))[:, None])

    return _clipping(radius, start, buckets)


def _clipping(radius: float | Array, start: str, members: Callable[[Key, Array], Array]) -> Aggregator:
    """`members(key, ok [g]) -> [t, g]`: the rows that step t averages."""
    tau = _validate.positive(radius=radius)
    _validate.one_of(get_args(Start), start=start)
    carries = start == "previous"

    def init(d: int) -> PyTree:
        return jnp.zeros(d) if carries else ()

    def apply(key: Key, state: PyTree, received: Received) -> tuple[Array, PyTree]:
        rows, ok = rows_of(received), received.count > 0
        origin = state if carries else jnp.zeros_like(rows[0])
        scale = unit_scale(jnp.asarray(tau, rows.dtype))
        coefficients = _coefficients(gram(rows, origin, scale), members(key, ok), tau * scale)
        moved = (1 - coefficients.sum()) * origin + weighted_sum(coefficients, rows)
        return jnp.where(ok.any(), moved, jnp.zeros_like(moved)), moved if carries else ()

    return Aggregator(init, apply, fewer_than_half, equivariant=True)


def _coefficients(products: Float[Array, "g g"], members: Bool[Array, "t g"], tau: float | Array) -> Array:
    """Coefficients `c` of the last centre, `origin + sum_l c_l (b_l - origin)`."""
    near = members.any(0) & (jnp.diagonal(products) < FAR)
    products = jnp.where(both(near), products, 0.0)

    def step(coefficients: Array, here: Array) -> tuple[Array, None]:
        clipped = jnp.minimum(1.0, tau / distances_to_sum(products, coefficients))
        pull = jnp.where(near & here, clipped, 0.0) / jnp.maximum(here.sum(), 1).astype(products.dtype)
        return coefficients * (1 - pull.sum()) + pull, None

    return lax.scan(step, jnp.zeros(len(products)), members)[0]

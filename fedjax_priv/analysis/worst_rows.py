"""A search for the rows on which a rule does worst, in the terms of (f, kappa)-robustness."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.analysis.rule_robustness import length
from fedjax_priv.base import Aggregator, Key, Received
from fedjax_priv.keys import keyless

CHILDREN = 60
GROW, SHRINK, SMALLEST_STEP = 1.3, 0.85, 1e-3
NO_HARM = -1.0
"""In place of NaN: below every kappa."""


class Worst(NamedTuple):
    """The worst rows found; `kappa_of` gives the same number for them."""

    kappa: Float[Array, ""]  # no certificate of the rule can be below it; NaN: no input gave a number
    rows: Float[Array, "n d"]  # the first f are Byzantine


def kappa_of(rule: Aggregator, rows: Float[Array, "n d"], num_byzantine: int) -> Float[Array, ""]:
    """`(n - f) ||rule - mean_S||^2 / sum_S ||x_i - mean_S||^2`, S all rows but the first f (Allouah et al. 2023).

    Args:
      rule: from a fresh state; it must not draw.
      rows: honest ones differ.
      num_byzantine: f, from 0 to below n.

    Raises:
      ValueError: `rule` is no aggregator, or `num_byzantine` is out of range.

    Examples:
      >>> rule = fedjax_priv.aggregators.trimmed_mean(1)
      >>> rows = jnp.array([[9.0], [1.0], [2.0], [3.0]])  # the first is Byzantine
      >>> print(round(float(kappa_of(rule, rows, num_byzantine=1)), 3))
      0.375
    """
    _validate.part(Aggregator, "aggregators.coordinate_median()", rule=rule)
    _validate.integer(at_least=0, num_byzantine=num_byzantine)
    if num_byzantine >= len(rows):
        raise ValueError(f"num_byzantine must be below the number of rows, {len(rows)}, got {num_byzantine}")
    rows = jnp.asarray(rows)
    received = Received(rows, jnp.ones(len(rows), jnp.int32))
    direction, _ = rule.apply(keyless(), rule.init(rows.shape[1]), received)
    honest = rows[num_byzantine:]
    mean = honest.mean(0)
    spread = length(honest - mean[None]) / len(honest) ** 0.5
    return jnp.square(length(direction - mean) / spread)


def kappa_search(
    key: Key, rule: Aggregator, num_rows: int, num_byzantine: int, *, num_params: int = 2, starts: int = 6,
    steps: int = 200,
) -> Worst:  # fmt: skip
    """The largest `kappa_of` found: a lower bound on what any certificate of the rule can say, with its witness.

    From each start, the best of 60 random changes to half of the rows is taken whenever it is worse for the rule; steps
    grow on success and shrink otherwise. One start is the worst of a few inputs of two or three points; a third of the
    others begin at zeros and ones. One compiled program, without derivatives, so any rule can be searched.

    Args:
      key: of the search.
      rule: it must not draw; NaN counts as no harm, infinity as the worst.
      num_rows: n.
      num_byzantine: f, from 1 to below n/2.
      num_params: coordinates of a row, d.
      starts: how many searches run side by side.
      steps: of each search.

    Raises:
      ValueError: an argument is out of range, or the rule needs more rows.
    """
    _validate.part(Aggregator, "aggregators.coordinate_median()", rule=rule)
    _validate.integer(num_rows=num_rows, num_byzantine=num_byzantine, num_params=num_params)
    _validate.integer(starts=starts, steps=steps)
    if 2 * num_byzantine >= num_rows:
        raise ValueError(f"num_byzantine must be below half of num_rows = {num_rows}, got {num_byzantine}")
    if rule.most_byzantine is not None and rule.most_byzantine(num_rows) < 0:
        raise ValueError(f"rule must be one for num_rows = {num_rows} rows, and this one needs more")
    shape = num_rows, num_byzantine, num_params

    def harm(rows: Array) -> Array:
        found = kappa_of(rule, rows, num_byzantine)
        return jnp.where(jnp.isnan(found), NO_HARM, found)

    def search(key: Key, first: Array) -> tuple[Array, Array]:
        def step(now: tuple, key: Key) -> tuple[tuple, None]:
            rows, worst, size = now
            child = lambda key: _normal(_changed(key, rows, size), num_byzantine)
            tried = jax.vmap(child)(jax.random.split(key, CHILDREN))
            harms = jax.vmap(harm)(tried)
            best = jnp.argmax(harms)
            better = harms[best] > worst
            size = jnp.where(size < SMALLEST_STEP, 1.0, size * jnp.where(better, GROW, SHRINK))
            return (jnp.where(better, tried[best], rows), jnp.maximum(harms[best], worst), size), None

        begun = first, harm(first), jnp.float32(0.3)
        (rows, worst, _), _ = jax.lax.scan(step, begun, jax.random.split(key, steps))
        return worst, rows

    @jax.jit
    def all_starts(key: Key) -> Worst:
        known = _known_inputs(*shape)
        drawn = jax.vmap(lambda i, key: _start(i, key, *shape))(jnp.arange(starts), jax.random.split(key, starts))
        first = drawn.at[0].set(known[jnp.argmax(jax.vmap(harm)(known))])
        worst, rows = jax.vmap(search)(jax.random.split(jax.random.fold_in(key, 1), starts), first)
        found = worst.max()
        return Worst(jnp.where(found == NO_HARM, jnp.nan, found), rows[jnp.argmax(worst)])

    return all_starts(key)


def _changed(key: Key, rows: Array, size: Array) -> Array:
    which, how = jax.random.split(key)
    moved = jax.random.bernoulli(which, 0.5, (len(rows), 1))
    return rows + jnp.where(moved, size * jax.random.normal(how, rows.shape), 0.0)


def _normal(rows: Array, num_byzantine: int) -> Array:
    """With honest rows about 0, of variance 1."""
    honest = rows[num_byzantine:]
    away = rows - honest.mean(0)[None]
    return away / jnp.sqrt(jnp.square(away[num_byzantine:]).sum(1).mean())


def _start(number: Array, key: Key, num_rows: int, num_byzantine: int, num_params: int) -> Array:
    draw, noise = jax.random.split(key)
    normal = jax.random.normal(noise, (num_rows, num_params))
    points = jax.random.bernoulli(draw, 0.5, (num_rows, num_params)).astype(normal.dtype) + 0.01 * normal
    return _normal(jnp.where(number % 3 == 1, points, normal), num_byzantine)


def _known_inputs(num_rows: int, num_byzantine: int, num_params: int) -> Array:
    """Honest rows at 0, some of them at -1; Byzantine ones at or near -1, 0 or 1."""
    honest, inputs = num_rows - num_byzantine, []
    for at_minus_one in range(1, honest):
        for place in (-1.0, -0.999, 0.0, 0.999, 1.0):
            values = [place] * num_byzantine + [-1.0] * at_minus_one + [0.0] * (honest - at_minus_one)
            inputs.append(values)
    line = jnp.zeros((len(inputs), num_rows, num_params)).at[:, :, 0].set(jnp.asarray(inputs))
    return jax.vmap(lambda rows: _normal(rows, num_byzantine))(line)

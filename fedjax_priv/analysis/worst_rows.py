"""A search for the rows on which a rule is worst, measured by (f, kappa)-robustness."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.analysis.rule_robustness import length
from fedjax_priv.base import Aggregator, Key, Received
from fedjax_priv.engine.batches import in_batches
from fedjax_priv.keys import keyless

CHILDREN = 60
GROW, SHRINK, SMALLEST_STEP = 1.3, 0.85, 1e-3
SPACING, PLACES = 0.05, 60
"""Distance and number of the places of Byzantine rows in the known inputs."""
NO_HARM = -1.0
"""Replaces NaN: below every kappa."""


class Worst(NamedTuple):
    """The worst rows found; `kappa` is their `kappa_of`."""

    kappa: Float[Array, ""]  # a lower bound on any valid kappa of the rule; NaN: no input gave a number
    rows: Float[Array, "n d"]  # the first f are Byzantine


def kappa_of(rule: Aggregator, rows: Float[Array, "n d"], num_byzantine: int) -> Float[Array, ""]:
    """`(n - f) ||rule - mean_S||^2 / sum_S ||x_i - mean_S||^2`, S all rows after the first f (Allouah et al. 2023).

    Args:
      rule: called with a fresh state; it must not draw.
      rows: the honest ones must not all be equal.
      num_byzantine: f, from 0 to n - 1.

    Raises:
      ValueError: `rule` is not an aggregator, or `num_byzantine` is out of range.

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
    key: Key, rule: Aggregator, num_rows: int, num_byzantine: int, *, num_params: int = 3, starts: int = 12,
    steps: int = 200,
) -> Worst:  # fmt: skip
    """The largest `kappa_of` found, and its rows: a lower bound on the kappa of any certificate of the rule.

    It is the best of `starts` searches. They use 1, 2, ..., `num_params` coordinates in turn: most rules are worst on a
    line, but not all, and searches stop at different inputs. A search tries 60 random changes to half of the rows and
    keeps the best one if it increases kappa; steps grow on success and shrink otherwise. For each number of
    coordinates, the first search starts at the worst of many inputs of two to four points; half of the others start
    near zeros and ones. A search is one compiled program without derivatives, so it works for any rule. All inputs have
    the honest mean 0. So it may find far too little for a rule to which the origin matters, as after `aggregators.arc`.

    Args:
      key: of the search.
      rule: it must not draw. If it returns nan, this counts as no harm; infinity counts as the worst.
      num_rows: n.
      num_byzantine: f, at least 1 and below n/2.
      num_params: d, the coordinates of a row; a search with fewer coordinates leaves the others 0.
      starts: how many searches run side by side, at least `num_params`.
      steps: of each search.

    Raises:
      ValueError: an argument is out of range, or the rule needs more rows.

    Examples:
      >>> rule = fedjax_priv.aggregators.trimmed_mean(1)
      >>> worst = kappa_search(jax.random.key(0), rule, 4, 1, num_params=1, starts=2, steps=5)
      >>> print(worst.rows.shape, round(float(worst.kappa), 2))  # that of the proof, f / (n - 2f)
      (4, 1) 0.5
    """
    _validate.part(Aggregator, "aggregators.coordinate_median()", rule=rule)
    _validate.integer(num_rows=num_rows, num_byzantine=num_byzantine, num_params=num_params)
    _validate.integer(at_least=num_params, starts=starts)
    _validate.integer(steps=steps)
    if 2 * num_byzantine >= num_rows:
        raise ValueError(f"num_byzantine must be below half of num_rows = {num_rows}, got {num_byzantine}")
    if rule.most_byzantine is not None and rule.most_byzantine(num_rows) < 0:
        raise ValueError(f"rule must be one for num_rows = {num_rows} rows, and this one needs more")

    def harm(rows: Array) -> Array:
        found = kappa_of(rule, rows, num_byzantine)
        return jnp.where(jnp.isnan(found), NO_HARM, found)

    def search(key: Key, first: Array, used: Array) -> tuple[Array, Array]:
        def step(now: tuple, key: Key) -> tuple[tuple, None]:
            rows, worst, size = now
            child = lambda key: _normal(_changed(key, rows, size, used), num_byzantine)
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
        known = _known_inputs(num_rows, num_byzantine, num_params)
        drawing, searching = jax.random.split(key)
        number = jnp.arange(starts)
        used = jnp.arange(num_params)[None, :] <= number[:, None] % num_params
        draw = lambda key, which, used: _start(key, which, used, num_rows, num_byzantine)
        drawn = jax.vmap(draw)(jax.random.split(drawing, starts), number // num_params, used)
        first = drawn.at[:num_params].set(known[jnp.argmax(in_batches(harm, known, CHILDREN))])
        worst, rows = jax.vmap(search)(jax.random.split(searching, starts), first, used)
        found = worst.max()
        return Worst(jnp.where(found == NO_HARM, jnp.nan, found), rows[jnp.argmax(worst)])

    return all_starts(key)


def _changed(key: Key, rows: Array, size: Array, used: Array) -> Array:
    """Moves a random half of the rows along the coordinates in use."""
    which, how = jax.random.split(key)
    moved = jax.random.bernoulli(which, 0.5, (len(rows), 1))
    return rows + jnp.where(moved & used[None], size * jax.random.normal(how, rows.shape), 0.0)


def _normal(rows: Array, num_byzantine: int) -> Array:
    """Shifts and scales rows so that the honest rows have mean 0 and variance 1."""
    honest = rows[num_byzantine:]
    away = rows - honest.mean(0)[None]
    return away / jnp.sqrt(jnp.square(away[num_byzantine:]).sum(1).mean())


def _start(key: Key, which: Array, used: Array, num_rows: int, num_byzantine: int) -> Array:
    draw, noise = jax.random.split(key)
    normal = jax.random.normal(noise, (num_rows, used.size))
    points = jax.random.bernoulli(draw, 0.5, normal.shape).astype(normal.dtype) + 0.01 * normal
    return _normal(jnp.where(used[None], jnp.where(which % 2 == 1, points, normal), 0.0), num_byzantine)


def _known_inputs(num_rows: int, num_byzantine: int, num_params: int) -> Array:
    """Inputs with honest rows at 0 and -1. Byzantine rows are all at or near these, or one is between 0 and the others.

    The last kind misleads Krum: the other Byzantine rows are decoys that give the row in between a better score.
    """
    honest = num_rows - num_byzantine
    places = jnp.arange(PLACES).astype(jnp.float32) * SPACING
    on_the_way, beyond = jnp.meshgrid(places[1:], places[: PLACES // 3])
    near = jnp.asarray((-1.0, -0.999, 0.0, 0.999, 1.0))
    one = jnp.concatenate([near, on_the_way.ravel()])
    others = one + jnp.concatenate([jnp.zeros_like(near), beyond.ravel()])
    bad = jnp.where(jnp.arange(num_byzantine)[None, :] == 0, one[:, None], others[:, None])
    good = jnp.where(jnp.arange(honest)[None, :] < jnp.arange(1, honest)[:, None], -1.0, 0.0)
    inputs = jax.vmap(lambda bad: jax.vmap(lambda good: jnp.concatenate([bad, good]))(good))(bad).reshape(-1, num_rows)
    line = jnp.zeros((*inputs.shape, num_params)).at[:, :, 0].set(inputs)
    return jax.vmap(lambda rows: _normal(rows, num_byzantine))(line)

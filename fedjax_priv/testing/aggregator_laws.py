"""The laws of an aggregation rule, as a check."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Aggregator, Kept, Received
from fedjax_priv.base.aggregator import InTwo
from fedjax_priv.testing.laws import is_compiled, law, traced_once


def check_aggregator(rule: Aggregator, *, num_rows: int = 9, num_params: int = 7, variant: Callable = jax.jit) -> None:
    """Laws 3, 4, 14, 15 and 16: a direction `[d]` that absent rows do not reach.

    Args:
      rule: it must accept `num_rows - 1` rows, any of which may be Byzantine or not; if it trusts a row, it may be NaN
        without that one.
      num_rows: rows the server holds, g; in the sets that are tried, none is absent, or the last, the first, the middle
        one, or the first and the last, unless these are more than `most_byzantine` says.
      num_params: d.
      variant: how the rule is run, such as `self.variant` of a `chex.TestCase`; it is called on a function.

    Raises:
      AssertionError: a law is broken, which the message names by number and name.
      ValueError: `rule` is no `Aggregator`, or a function of it takes or returns other things than in a round.
    """
    _validate.part(Aggregator, "aggregators.from_host(function)", rule=rule)
    if rule.most_byzantine is not None:
        _validate.takes("rows", **{"rule.most_byzantine": rule.most_byzantine})
    key, first = jax.random.key(7), rule.init(num_params)
    run = variant(traced_once(rule.apply))
    state = first
    compiled = is_compiled(variant)
    for seed, absent in enumerate(_absent(rule, num_rows) if compiled else [()]):
        rows, count = _rows(seed, num_rows, num_params, absent)
        with law(4, "a rule must be traced once for all rounds"):
            made = run(key, state, Received(rows, count))
        _validate.returned(2, "direction [d], state", **{"rule.apply": made})
        direction, after = made
        if rule.trusted_row in absent and jnp.isnan(direction).all():
            continue
        after = after.counted if isinstance(after, Kept) else after
        with law(15, "the direction must be finite, float32 [d]"):
            chex.assert_shape(direction, (num_params,))
            chex.assert_type(direction, jnp.float32)
            chex.assert_tree_all_finite(direction)
        with law(3, "the state of a rule must keep its structure, shapes and dtypes"):
            chex.assert_trees_all_equal_shapes_and_dtypes(*jax.tree.map(jnp.asarray, (after, first)))
        for garbage in (np.nan, 1e30) if compiled else ():
            spoilt = jnp.where(count[:, None] > 0, rows, jnp.float32(garbage))
            with law(16, "rows with count 0 must reach neither the direction nor the state"):
                chex.assert_trees_all_equal(run(key, state, Received(spoilt, count)), made)
        if not compiled:
            with law(14, "the direction must be the same with and without jit"):
                expected = jax.jit(rule.apply)(key, state, Received(rows, count))[0]
                chex.assert_trees_all_close(direction, expected, rtol=1e-4, atol=1e-4)
        state = after
    whole = lambda rows, count: jax.jit(rule.apply)(key, first, Received(rows, count))[0]
    if rule.equivariant:
        with law(15, "the direction of a rule that says it is equivariant must turn with the rows"):
            _check_turns(whole, num_rows, num_params)
    if rule.steady:
        with law(15, "the direction of a rule that says it is steady must not change with a rounding of the rows"):
            _check_steady(whole, num_rows, num_params)
    if rule.in_two:
        _check_in_two(rule.in_two, key, first, whole, num_rows, num_params)


def _check_turns(found: Callable, num_rows: int, num_params: int) -> None:
    rows, count = _rows(0, num_rows, num_params)
    turn = jnp.asarray(np.linalg.qr(np.random.default_rng(0).normal(size=(num_params, num_params)))[0], jnp.float32)
    chex.assert_trees_all_close(found(rows @ turn, count), found(rows, count) @ turn, rtol=1e-3, atol=1e-3)


def _check_steady(found: Callable, num_rows: int, num_params: int) -> None:
    rows, count = _rows(0, num_rows, num_params)
    rows = jnp.maximum(rows, 0)
    rounded = rows + 1e-6 * np.random.default_rng(1).normal(size=rows.shape).astype(np.float32)
    chex.assert_trees_all_close(found(rounded, count), found(rows, count), rtol=1e-3, atol=1e-3)


def _check_in_two(parts: InTwo, key: jax.Array, state: PyTree, whole: Callable, num_rows: int, num_params: int) -> None:
    turning = jax.jit(lambda rows, count: parts.turning(key, rows, count > 0))
    with law(15, "the steps of `in_two` must turn with the rows"):
        _check_turns(lambda rows, count: turning(rows, count)[0], num_rows, num_params)
    rows, count = _rows(1, num_rows, num_params, (num_rows - 1,))
    made = jax.jit(parts.rest)(key, state, *turning(rows, count), count > 0)[0]
    with law(15, "`in_two` must give the direction of the rule"):
        chex.assert_trees_all_close(made, whole(rows, count), rtol=1e-4, atol=1e-4)


def _absent(rule: Aggregator, num_rows: int) -> list[tuple[int, ...]]:
    """The rows that are absent in each set: two only where the rule does not say that it needs more."""
    last, two = num_rows - 1, rule.most_byzantine is None or rule.most_byzantine(num_rows - 2) >= 0
    return [(), (last,), (0,), (num_rows // 2,), *([(0, last)] if two else [])]


def _rows(seed: int, num_rows: int, num_params: int, absent: tuple[int, ...] = ()) -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(num_rows, num_params)) + rng.normal(size=num_params)
    count = rng.integers(1, 4, num_rows)
    count[list(absent)] = 0
    return jnp.asarray(rows, jnp.float32), jnp.asarray(count, jnp.int32)

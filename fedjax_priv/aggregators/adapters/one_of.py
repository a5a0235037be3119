"""A rule chosen by number: many rules in one compiled program."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Aggregator, Key, Received
from fedjax_priv.engine import batched_switch


def one_of(index: ArrayLike, rules: Sequence[Aggregator]) -> Aggregator:
    """The rule `rules[index]`. Under `vmap`, as in a sweep over `index`, each member runs only its own rule.

    `most_byzantine` is the smallest of all rules, so a system refuses more Byzantine rows than every rule tolerates.

    Args:
      index: from 0, int or float; may be traced. A traced index out of range gives the direction NaN. As an axis of a
        sweep floats share a program, and may have names: `{"krum": 0.0, "median": 1.0}`. Integers compile one each.
      rules: rules for the same rows; the state is a tuple with the state of each.

    Raises:
      ValueError: `rules` is empty or holds something else than such rules, one tells clients something or needs no
        rows, two trust different rows, or `index` is out of range.

    Examples:
      >>> rules = [mean(), coordinate_median()]
      >>> print(one_of(1, rules)([[1.0], [2.0], [99.0]]))
      [2.]
    """
    at, known = batched_switch.number(index, rules)
    for i, rule in enumerate(rules):
        _validate.part(Aggregator, "aggregators.mean()", **{f"rules[{i}]": rule})
        if rule.tells or not rule.needs_rows:
            raise ValueError(f"rules[{i}] must be a rule that needs rows and tells clients nothing")

    def apply(key: Key, states: tuple, received: Received) -> tuple[Array, tuple]:
        def branch(i: int) -> Callable[..., tuple]:
            def one(key: Key, states: tuple, received: Received) -> tuple[Array, tuple]:
                direction, state = rules[i].apply(key, states[i], received)
                return direction, (*states[:i], state, *states[i + 1 :])

            return one

        direction, states = batched_switch.switch(at, [branch(i) for i in range(len(rules))], key, states, received)
        return jnp.where(known, direction, jnp.nan), states

    def init(d: int) -> PyTree:
        return tuple(rule.init(d) for rule in rules)

    return Aggregator(
        init, apply, _least([rule.most_byzantine for rule in rules]),
        trusted_row=_trusted([rule.trusted_row for rule in rules]), equivariant=all(rule.equivariant for rule in rules),
    )  # fmt: skip


def _trusted(found: Sequence[int | None]) -> int | None:
    """The row that all rules trust which trust one."""
    rows = sorted({row for row in found if row is not None})
    if len(rows) > 1:
        raise ValueError(f"rules must trust the same row, if any, got rules that trust rows {rows}")
    return rows[0] if rows else None


def _least(bounds: Sequence[Callable[[int], int] | None]) -> Callable[[int], int] | None:
    known = [bound for bound in bounds if bound is not None]
    return (lambda num_rows: min(bound(num_rows) for bound in known)) if len(known) == len(bounds) else None

"""What aggregation rules have in common: missing rows, too few rows, means of chosen rows."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.column_blocks import weighted_sum
from fedjax_priv.base import Aggregator, Key, Received
from fedjax_priv.base.given_rows import NO_DIRECTION


def rule(
    direct: Callable[[Array, Array], Array], most_byzantine: Callable[[int], int], *, trusted_row: int | None = None,
    equivariant: bool = False, steady: bool = False,
) -> Aggregator:  # fmt: skip
    """A rule without state or randomness: `direct(rows [g, d], ok [g]) -> [d]`."""

    def apply(key: Key, state: tuple, received: Received) -> tuple[Array, tuple]:
        del key
        ok = received.count > 0
        return checked_direction(direct(rows_of(received), ok), ok, most_byzantine), state

    return Aggregator(
        lambda d: (), apply, most_byzantine, trusted_row=trusted_row, equivariant=equivariant, steady=steady
    )


def rows_of(received: Received) -> Float[Array, "g d"]:
    """The rows, for a rule on arrays.

    Raises:
      ValueError: layers made rows of another kind, which an adapter reads.
    """
    if not hasattr(received.value, "dtype"):
        raise ValueError(
            "aggregate must be on_coordinates(rule, num_params) where layers decode to Sparse rows, "
            "in_sketch(rule, num_params, k) where they decode to Sketched ones, "
            f"got a rule on arrays for {type(received.value).__name__} rows"
        )
    return received.value


def checked_direction(
    direction: Float[Array, " d"], ok: Bool[Array, " g"], most_byzantine: Callable[[int], int]
) -> Float[Array, " d"]:
    """`direction`, but zero if no row is present and NaN if too few are for the rule."""
    enough = by_count(lambda m: most_byzantine(m) != NO_DIRECTION, ok)
    return jnp.where(ok.any(), jnp.where(enough, direction, jnp.nan), jnp.zeros_like(direction))


def by_count(f: Callable[[int], Any], ok: Bool[Array, " g"]) -> Array:
    """`f(M)` for the number M of rows present, from a table of all M that is computed before the program runs."""
    return jnp.asarray([f(m) for m in range(ok.size + 1)])[ok.sum()]


def minority(num_byzantine: int) -> Callable[[int], int]:
    """`most_byzantine` of rules for `f` Byzantine rows that need `2f < M`.

    Raises:
      ValueError: `num_byzantine` is not an integer >= 0.
    """
    _validate.integer(at_least=0, num_byzantine=num_byzantine)
    return lambda num_rows: num_byzantine if 2 * num_byzantine < num_rows else NO_DIRECTION


def fewer_than_half(num_rows: int) -> int:
    """`most_byzantine` of rules that tolerate any minority."""
    return (num_rows - 1) // 2 if num_rows else 0


def smallest(score: Float[Array, "... g"], how_many: Int[Array, ""]) -> Bool[Array, "... g"]:
    """Marks the smallest scores of each line. NaN counts as the largest score, and ties go to the first."""
    return jnp.argsort(jnp.argsort(score, -1), -1) < how_many


def mean_of(chosen: Bool[Array, " g"], rows: Float[Array, "g d"]) -> Float[Array, " d"]:
    """Mean of the chosen rows; others may hold anything."""
    return weighted_sum(chosen.astype(rows.dtype), rows) / chosen.sum().astype(rows.dtype)


def mean_of_smallest(
    score: Float[Array, " g"], how_many: Int[Array, ""], rows: Float[Array, "g d"]
) -> Float[Array, " d"]:
    """Mean of the rows with the smallest scores; NaN if one of those scores is not finite."""
    chosen = smallest(score, how_many)
    known = jnp.where(chosen, jnp.isfinite(score), True).all()
    return jnp.where(known, mean_of(chosen, rows), jnp.nan)

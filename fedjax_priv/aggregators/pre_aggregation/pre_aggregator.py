"""Pre-aggregators, steps from rows to rows, and their composition with a rule."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from fedjax_priv.aggregators.rule_parts import checked_direction, rows_of
from fedjax_priv.base import Aggregator, Key, Received
from fedjax_priv.base.aggregator import InTwo
from fedjax_priv.base.given_rows import NO_DIRECTION, check_enough, given_rows
from fedjax_priv.keys import keyless, named


class PreAggregator(NamedTuple):
    """A step from rows to rows; rows not in `ok` are missing and may hold anything.

    A step can also be called on an array: `clipping(1.0)(rows)`.
    """

    apply: Callable[..., tuple]  # (key, rows [g, d], ok [g]) -> (rows [g', d], ok [g'])
    most_byzantine: Callable[[int], int]  # of M rows; -1: too few for a result
    rows_left: Callable[[int], int] | None = None  # of M rows, where they are others than before; None: row by row
    equivariant: bool = False  # as of `Aggregator`

    def __call__(
        self, rows: ArrayLike | Sequence, present: ArrayLike | Sequence | None = None, *, key: Key | None = None
    ) -> Float[Array, "h d"]:
        """The rows that are left of rows `[g, d]` outside a round; compiled once per shape.

        Args:
          rows: a NumPy or JAX array, or a list of rows; converted to float32.
          present: bool `[g]`, which rows are present; others may hold anything. None: the finite ones, as in a round.
          key: for steps that draw, such as `bucketing`.

        Returns:
          A JAX array of the `h` rows that are present after the step, in order.

        Raises:
          ValueError: `rows` or `present` has another shape, too few rows are present, or a step that draws gets no key.

        Examples:
          >>> step = PreAggregator(lambda key, rows, ok: (2 * rows, ok), lambda num_rows: num_rows)
          >>> print(step([[1.0, 2.0], [3.0, jnp.nan]]))
          [[2. 4.]]
        """
        rows, there = given_rows(rows, present)
        check_enough(there, self.most_byzantine)
        left, ok = jax.jit(self.apply)(keyless() if key is None else key, rows, there)
        return jax.block_until_ready(left[ok])


def pre_aggregated(*parts: PreAggregator | Aggregator) -> Aggregator:
    """Pre-aggregators in order, then a rule: `pre_aggregated(bucketing(2), krum(3))`.

    It tolerates as many Byzantine rows as every part does, or an unknown number if that of the rule is unknown; of the
    rows that a pre-aggregator makes anew, as `bucketing` does, one is Byzantine if any of its inputs is. If a part gets
    too few rows, the direction is NaN.

    Raises:
      ValueError: no pre-aggregator is given, the last part is not an aggregator, or another part is one; or the rule
        trusts a row, and a pre-aggregator makes other rows.

    Examples:
      >>> rule = pre_aggregated(nearest_neighbour_mixing(1), clipping(2.0), trimmed_mean(1))
      >>> print(rule([[1.0], [2.0], [3.0], [99.0]]), rule.most_byzantine(4))
      [2.] 1
    """
    pre = [part for part in parts[:-1] if isinstance(part, PreAggregator)]
    if len(parts) < 2 or len(pre) != len(parts) - 1 or not isinstance(last := parts[-1], Aggregator):
        raise ValueError("parts must be one or more pre-aggregators, then one aggregator")
    if last.trusted_row is not None and any(step.rows_left for step in pre):
        raise ValueError("parts must not make other rows before a rule that trusts one: bucketing draws them anew")

    def steps(key: Key, rows: Array, ok: Array) -> tuple[Array, Array]:
        for i, step in enumerate(pre):
            rows, ok = step.apply(named(key, f"step {i}"), rows, ok)
        return rows, ok

    def rest(key: Key, state: PyTree, rows: Array, ok: Array, here: Array, used: PyTree = ()) -> tuple[Array, PyTree]:
        received = Received(rows, ok.astype(jnp.int32), used=used)
        direction, state = last.apply(named(key, "aggregate"), state, received)
        checked = checked_direction(direction, here, most_byzantine)
        return checked if last.needs_rows else jnp.where(here.any(), checked, direction), state

    def apply(key: Key, state: PyTree, received: Received) -> tuple[Array, PyTree]:
        here = received.count > 0
        return rest(key, state, *steps(key, rows_of(received), here), here, received.used)

    def most_byzantine(num_rows: int) -> int:
        most = num_rows
        for part in (*pre, last):
            tolerated = part.most_byzantine(num_rows) if part.most_byzantine else 0
            if tolerated == NO_DIRECTION:
                return NO_DIRECTION
            most = min(most, tolerated)
            num_rows = part.rows_left(num_rows) if isinstance(part, PreAggregator) and part.rows_left else num_rows
        return most

    turning = all(step.equivariant for step in pre)
    return last._replace(
        apply=apply, most_byzantine=most_byzantine if last.most_byzantine else None,
        equivariant=turning and last.equivariant, in_two=InTwo(steps, rest) if turning and last.steady else None,
    )  # fmt: skip

"""Rows that a caller gives outside a round: lists, NumPy or JAX arrays."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from fedjax_priv._devices import finite_rows, read_in_place

NO_DIRECTION = -1
"""What `most_byzantine` of a rule says of too few rows."""
_MOST_ROWS = 100_000
"""Up to so many, the least number that is enough is looked for."""


def given_rows(
    rows: ArrayLike | Sequence, present: ArrayLike | Sequence | None
) -> tuple[Float[Array, "g d"], Bool[Array, " g"]]:
    """Rows as float32, and which of them are present; the finite ones, as in a round, if that is not given.

    On a CPU the rows may lie in the caller's memory: wait for what is computed of them.

    Raises:
      ValueError: `rows` or `present` has another shape than `[g, d]` and `[g]`, there is no number, or
        `present` is not bool, such as the numbers of the rows.
    """
    if isinstance(rows, Sequence) and len(sizes := {np.shape(row) for row in rows}) > 1:
        raise ValueError(f"rows must have shape [g, d], got rows of shapes {', '.join(map(str, sorted(sizes)))}")
    rows = jnp.asarray(read_in_place(rows) if isinstance(rows, np.ndarray) else rows, jnp.float32)
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"rows must have shape [g, d] and not be empty, got {rows.shape}")
    there = finite_rows(rows) if present is None else jnp.asarray(present)
    if there.shape != rows.shape[:1] or there.dtype != bool:
        got = f"{there.dtype} {there.shape}"
        raise ValueError(f"present must have shape ({len(rows)},), one bool per row, got {got}")
    return rows, there


def check_enough(there: Bool[Array, " g"], most_byzantine: Callable[[int], int] | None) -> None:
    """Raises ValueError if rows are present, and too few for a rule or step; where they are traced, nobody knows."""
    if most_byzantine is None or isinstance(there, Tracer) or not (present := int(there.sum())):
        return
    if most_byzantine(present) == NO_DIRECTION:
        least = next((m for m in range(present, _MOST_ROWS) if most_byzantine(m) != NO_DIRECTION), "more")
        raise ValueError(f"rows must be at least {least} that are present for this rule or step, got {present}")

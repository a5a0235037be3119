"""A loop over steps in which clients that are done drop out, so that a step costs what the others take.

A program computes a fixed number of clients side by side. Where one client takes many more steps than the others, most
of what such a loop computes is thrown away. Here the clients with the most steps come first, and the loop goes on with
the first quarter as soon as the others are done.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Int32, PyTree

from fedjax_priv.engine.all_runs import largest_of_all_runs

PARTS = (1, 4, 16)
"""A loop runs with all clients, then with a quarter of them, then with a 16th. Each is its own program."""
Step = Callable[[Array, PyTree], PyTree]
"""`(time, state [b, ...]) -> state`."""


def widths(rows: int) -> list[int]:
    """How many of `rows` clients are computed side by side, one loop after another.

    Examples:
      >>> widths(100), widths(2), widths(1)
      ([100, 25, 7], [2, 1], [1])
    """
    return sorted({math.ceil(rows / part) for part in PARTS}, reverse=True)


def narrowing_loop(step_of: Callable[[Int32[Array, " k"]], Step], end: Int[Array, " b"], start: PyTree) -> PyTree:
    """The states of clients after steps 0, 1, ..., end - 1, of which each client has its own number.

    A step is made of no fewer clients than still need one; those that need none must keep their state in it.

    Args:
      step_of: `place [k] -> step` of the clients at these places; it is traced up to three times.
      end: steps of each client.
      start: `[b, ...]`, the states before step 0.

    Examples:
      >>> end = jnp.array([2, 5, 0])
      >>> step_of = lambda place: lambda time, state: state + (time < end[place])
      >>> print(narrowing_loop(step_of, end, jnp.zeros(3, jnp.int32)))
      [2 5 0]
    """
    order = jnp.argsort(end, stable=True, descending=True).astype(jnp.int32)
    state, time = _at(start, order), jnp.int32(0)
    sizes = widths(end.size)
    for size, next_size in zip(sizes, [*sizes[1:], 0], strict=True):
        until = largest_of_all_runs(end[order[next_size : next_size + 1]])  # then only next_size clients are not done
        trained = jax.lax.fori_loop(time, until, step_of(order[:size]), _at(state, slice(size)))
        state, time = _with_first_rows(state, trained, size), until
    return _at(state, jnp.argsort(order))


def _at(rows: PyTree, place: Array | slice) -> PyTree:
    return jax.tree.map(lambda a: a[place], rows)


def _with_first_rows(rows: PyTree, new: PyTree, size: int) -> PyTree:
    return jax.tree.map(lambda a, b: a.at[:size].set(b), rows, new)

"""One of several functions by number: under `vmap` each member runs its own, and no other."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.custom_batching import custom_vmap
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from fedjax_priv import _validate


def switch(index: Array, branches: Sequence[Callable[..., PyTree]], *operands: PyTree) -> PyTree:
    """`branches[index](*operands)`, also under `vmap` over indices.

    `lax.switch` runs every branch for every member then, and selects. Here members take turns, each with its branch:
    the work is that of the branches taken.

    Args:
      index: int32 scalar from 0 to `len(branches) - 1`.
      branches: all return the same structure, shapes and dtypes; they may close over traced values.
      *operands: what the branch is given.
    """
    opened = [_opened(branch, operands) for branch in branches]
    values = [own for _, own in opened]
    runs = [_with(run, i) for i, (run, _) in enumerate(opened)]
    return _switch(index, runs, values, *operands)


def _opened(branch: Callable[..., PyTree], operands: tuple) -> tuple[Callable[..., PyTree], list]:
    """A branch that takes what it closes over as operands, and those values: only operands can be batched."""
    closed, shapes = jax.make_jaxpr(branch, return_shape=True)(*operands)
    out = jax.tree.structure(shapes)

    def run(values: list, *operands: PyTree) -> PyTree:
        return out.unflatten(jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, values))(*jax.tree.leaves(operands)))

    return run, list(closed.consts)


def _with(run: Callable[..., PyTree], i: int) -> Callable[..., PyTree]:
    return lambda values, *operands: run(values[i], *operands)


def _switch(index: Array, branches: Sequence[Callable[..., PyTree]], *operands: PyTree) -> PyTree:
    """`switch` for branches that close over nothing."""

    @custom_vmap
    def choose(index: Array, *operands: PyTree) -> PyTree:
        return jax.lax.switch(index, branches, *operands)

    @choose.def_vmap
    def by_turns(axis_size: int, in_batched: list, index: Array, *operands: PyTree) -> tuple[PyTree, PyTree]:
        batched = tuple(in_batched[1:])
        if in_batched[0]:
            out = jax.lax.map(lambda i: choose(index[i], *_member(i, batched, operands)), jnp.arange(axis_size))
        else:
            axes = jax.tree.map(lambda own: 0 if own else None, batched)
            out = _switch(index, [jax.vmap(one, axes, axis_size=axis_size) for one in branches], *operands)
        return out, jax.tree.map(lambda _: True, out)

    return choose(index, *operands)


def _member(i: Array, batched: tuple, operands: tuple) -> tuple:
    return jax.tree.map(lambda own, a: a[i] if own else a, batched, operands)


def number(index: ArrayLike, among: Sequence[Any]) -> tuple[Array, Array]:
    """The index into `among` as int32, and whether a traced one is in range.

    Args:
      index: an integer, or a float that is one, so that it can be an axis of a sweep. May be traced.
      among: what is chosen from.

    Raises:
      ValueError: there is nothing to choose from, or `index` is no such number.
    """
    if not isinstance(among, tuple | list) or not among:
        raise ValueError(f"one_of must be given a list of at least one to choose from, got {among!r}")
    if not isinstance(index, Tracer):
        _validate.one_of(range(len(among)), index=index)
    at = jnp.asarray(index, jnp.float32)
    clipped = jnp.clip(jnp.nan_to_num(at), 0, len(among) - 1).astype(jnp.int32)
    return clipped, at == clipped.astype(jnp.float32)

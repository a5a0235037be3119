"""On which examples the output of an equation depends, given the dependence of its inputs.

Without a rule here, outputs are unknown; nothing relies on unknown values.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jax.extend.core import JaxprEqn

from fedjax_priv.clients.ghost_norms.loss_equations import shaped


class Rows(NamedTuple):
    """Along one axis, each `size` values in a row depend on one example, in the order of the examples."""

    axis: int
    size: int = 1


class Combined(NamedTuple):
    """Values that depend on several examples, by this primitive."""

    by: str


class Unknown(NamedTuple):
    """Values that are not followed further."""


Dependence = Rows | Combined | Unknown | None
"""How a value depends on the examples; None: on no example."""
Rule = Callable[[JaxprEqn, Sequence[Any]], Dependence]


def by_entry(equation: JaxprEqn, given: Sequence[Any]) -> Dependence:
    """For outputs whose entries depend on the same entries of the inputs, if shapes allow this."""
    output = shaped(equation.outvars[0]).shape
    shapes = [shaped(atom).shape for atom in equation.invars]
    by_axes = any(key.startswith(("ax", "dimension", "fft")) or "jaxpr" in key for key in equation.params)
    if by_axes or any(shape and len(shape) != len(output) for shape in shapes):
        return Unknown()
    rows = {each for each in given if each}
    if len({each.axis for each in rows}) > 1:
        return Combined(equation.primitive.name)
    (one, *others) = rows
    kept = all(shape[one.axis] == output[one.axis] for shape, each in zip(shapes, given, strict=True) if each)
    return one if kept and not others else Unknown()


def _reduction(equation: JaxprEqn, given: Sequence[Any]) -> Dependence:
    (rows,), axes = given, equation.params["axes"]
    return Combined(equation.primitive.name) if rows.axis in axes else _without(rows, axes)


def _without(rows: Rows, axes: Sequence[Any]) -> Rows:
    """Rows of an array without these axes."""
    return rows._replace(axis=rows.axis - sum(axis < rows.axis for axis in axes))


def _along(name: str) -> Rule:
    """For outputs of the inputs' shape that depend on all entries along the axis in the parameter `name`."""

    def rule(equation: JaxprEqn, given: Sequence[Any]) -> Dependence:
        rows = {each for each in given if each}
        (one, *others) = rows
        if equation.params[name] == one.axis:
            return Combined(equation.primitive.name)
        return Unknown() if others else one

    return rule


def _reshape(equation: JaxprEqn, given: Sequence[Any]) -> Dependence:
    """Rows stay in order if the axes before theirs have as many entries as before the reshape."""
    rows, old, new = given[0], shaped(equation.invars[0]).shape, shaped(equation.outvars[0]).shape
    before, entries = math.prod(old[: rows.axis]), rows.size * math.prod(old[rows.axis + 1 :])
    count = old[rows.axis] // rows.size
    for axis, length in enumerate(new):
        size, rest = divmod(entries, math.prod(new[axis + 1 :]))
        if math.prod(new[:axis]) == before and not rest and length == count * size:
            return Rows(axis, size)
    return Unknown()


def _product(equation: JaxprEqn, given: Sequence[Any]) -> Dependence:
    contracted, batch = equation.params["dimension_numbers"]
    sides = [side for side in (0, 1) if given[side]]
    if any(given[side].axis in contracted[side] for side in sides):
        return Combined("dot_general")
    places = set()
    for side in sides:
        axis, shape = given[side].axis, shaped(equation.invars[side]).shape
        free = [i for i in range(len(shape)) if i not in (*contracted[side], *batch[side])]
        first = len(batch[0])
        if side == 1:
            first += shaped(equation.invars[0]).ndim - len(contracted[0]) - len(batch[0])
        places.add(
            Rows(list(batch[side]).index(axis) if axis in batch[side] else first + free.index(axis), given[side].size)
        )
    return places.pop() if len(places) == 1 else Combined("dot_general")


def _convolution(equation: JaxprEqn, given: Sequence[Any]) -> Dependence:
    x, _, y = equation.params["dimension_numbers"]
    return Rows(y[0], given[0].size) if given[0] and not given[1] and given[0].axis == x[0] else Unknown()


def _lookup(equation: JaxprEqn, given: Sequence[Any]) -> Dependence:
    """An example's places read rows of a table, or entries of the example's row; or fixed places read all rows."""
    numbers, (table, places) = equation.params["dimension_numbers"], given
    others = [i for i in range(shaped(equation.outvars[0]).ndim) if i not in numbers.offset_dims]
    if table is None:
        return Rows(others[places.axis], places.size)
    if table.axis in numbers.operand_batching_dims:
        axis = numbers.start_indices_batching_dims[numbers.operand_batching_dims.index(table.axis)]
        return Rows(others[axis], table.size) if places is None or places.axis == axis else Combined("gather")
    taken = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    whole = equation.params["slice_sizes"][table.axis] == shaped(equation.invars[0]).shape[table.axis]
    if table.axis in (*taken, *numbers.start_index_map) or places is not None or not whole:
        return Unknown()
    return Rows(numbers.offset_dims[table.axis - sum(axis < table.axis for axis in taken)], table.size)


def _untouched(equation: JaxprEqn, given: Sequence[Any]) -> Dependence:
    """Slices, padding and similar equations that do not change the axis of examples."""
    rows = {each for each in given if each}
    (one, *others) = rows
    lengths = {shaped(each).shape[one.axis] for each in (equation.invars[0], *equation.outvars)}
    return Unknown() if others or len(lengths) > 1 else one


def _stack(equation: JaxprEqn, given: Sequence[Any]) -> Dependence:
    """Arrays whose rows are in the same order, along a new axis."""
    rows = {each for each in given if each}
    (one, *others) = rows
    return Unknown() if others else one._replace(axis=one.axis + (equation.params["axis"] <= one.axis))


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(
        [f"reduce_{name}" for name in ("sum", "max", "min", "prod", "and", "or")] + ["argmax", "argmin"], _reduction
    ),
    **dict.fromkeys(["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"], _along("axis")),
    **dict.fromkeys(["slice", "pad", "split", "concatenate", "dynamic_slice"], _untouched),
    "sort": _along("dimension"),
    "broadcast_in_dim": lambda equation, given: Rows(
        equation.params["broadcast_dimensions"][given[0].axis], given[0].size
    ),
    "conv_general_dilated": _convolution,
    "dot_general": _product,
    "gather": _lookup,
    "reshape": _reshape,
    "stack": _stack,  # of JAX 0.10 and later
    "squeeze": lambda equation, given: _without(given[0], equation.params["dimensions"]),
    "transpose": lambda equation, given: given[0]._replace(
        axis=tuple(equation.params["permutation"]).index(given[0].axis)
    ),
}
"""Primitive -> rule; other primitives use `by_entry`."""

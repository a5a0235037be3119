"""Which axes of a sweep change its programs or samples, and which points share both."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedjax_priv import _validate
from fedjax_priv.runs.grid import Grid, Point

SEED = "seed"


class AxisKinds(NamedTuple):
    """Names of axes other than "seed"."""

    static: frozenset[str]  # arguments of `make` that may change shapes or control flow
    traced: frozenset[str]  # other arguments of `make`
    data: frozenset[str]  # axes on which the samples depend


class SharedProgram(NamedTuple):
    """Points whose runs share a program; if their samples differ in shape, one program per shape."""

    number: int
    static: Mapping[str, Any]  # arguments of `make`
    by_data: Mapping[Point, list[Point]]  # points that share their samples

    @property
    def points(self) -> list[Point]:
        """All points."""
        return [point for points in self.by_data.values() for point in points]


def axis_kinds(grid: Grid, make: Callable[..., Any], data: Any, static: Iterable[str]) -> AxisKinds:
    """The kind of each axis. An axis of integers or names is static for `make`, and so is an axis that `data` takes.

    Raises:
      ValueError: `make` is not a function, or takes the axis "seed"; neither `make` nor `data` takes an axis; a name in
        `static` is not an axis; or a seed is out of range.
    """
    of_data = _named_in(data, grid, ()) if callable(data) else frozenset()
    if not callable(make):
        raise ValueError(f"make must be a function of axes that returns a system, got {type(make).__name__}")
    if SEED in grid.names and SEED in inspect.signature(make).parameters:
        raise ValueError(
            "make must not take 'seed' if it is an axis: that axis changes only the key; rename the argument"
        )
    of_make = _named_in(make, grid, unless=of_data) - {SEED}
    if unknown := [name for name in grid.names if name not in of_make | of_data | {SEED}]:
        known = [*inspect.signature(make).parameters, *(inspect.signature(data).parameters if callable(data) else ())]
        raise ValueError(f"axes must be 'seed' or arguments of make or data, here {known}, got {unknown}")
    if unknown := sorted({*static} - {*grid.names}):
        raise ValueError(f"static must be names of axes, got {unknown}")
    if SEED in grid.names:
        for value in grid.values[grid.names.index(SEED)]:
            _validate.seed(seed=value)
    traced = frozenset(name for name in of_make if _is_numeric(grid, name)) - {*static} - of_data
    return AxisKinds(of_make - traced, traced, of_data)


def points_by_program(grid: Grid, kinds: AxisKinds) -> list[SharedProgram]:
    """Groups the points by their static arguments of `make`, then by samples; groups are ordered by first point."""
    at = lambda point, names: tuple(i for i, name in zip(point, grid.names, strict=True) if name in names)
    found: dict[Point, dict[Point, list[Point]]] = {}
    for point in grid.points:
        found.setdefault(at(point, kinds.static), {}).setdefault(at(point, kinds.data), []).append(point)
    firsts = [next(iter(by_data.values()))[0] for by_data in found.values()]
    return [
        SharedProgram(number, {name: value for name, value in grid.at(first).items() if name in kinds.static}, by_data)
        for number, (first, by_data) in enumerate(zip(firsts, found.values(), strict=True))
    ]


def _named_in(function: Callable[..., Any], grid: Grid, unless: Iterable[str]) -> frozenset[str]:
    """The axes that a function takes: named arguments and, if it has `**kwargs`, all other axes except `unless`."""
    parameters = inspect.signature(function).parameters
    takes_any = any(of.kind is of.VAR_KEYWORD for of in parameters.values())
    return frozenset(name for name in grid.names if name in parameters or (takes_any and name not in unless))


def _is_numeric(grid: Grid, name: str) -> bool:
    """Whether an axis has only real numbers, at least one of them a float."""
    values = grid.values[grid.names.index(name)]
    real = all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)
    return real and any(isinstance(value, float | np.floating) for value in values)

"""What the axes of a sweep are for, and which of its points share a program and samples."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedjax_priv import _validate
from fedjax_priv.runs.grid import Grid, Point

SEED = "seed"


class Roles(NamedTuple):
    """Names of axes."""

    static: frozenset[str]  # arguments of `make` that change shapes or control flow
    traced: frozenset[str]  # other arguments of `make`
    data: frozenset[str]  # the samples depend on them


class Group(NamedTuple):
    """Points whose runs one program serves."""

    number: int
    static: Mapping[str, Any]  # arguments of `make`
    by_data: Mapping[Point, list[Point]]  # points that share their samples

    @property
    def points(self) -> list[Point]:
        """All of them."""
        return [point for points in self.by_data.values() for point in points]


def roles(grid: Grid, make: Callable[..., Any], data: Any, static: Iterable[str]) -> Roles:
    """What each axis is for; one that `data` depends on, and one of integers or names, is static for `make` too.

    Raises:
      ValueError: an axis that nothing takes, a name in `static` that is no axis, or a seed that is none.
    """
    of_data = _named_in(data, grid, ()) if callable(data) else frozenset()
    of_make = _named_in(make, grid, unless=of_data) - {SEED}
    if unknown := [name for name in grid.names if name not in of_make | of_data | {SEED}]:
        raise ValueError(f"axes must be arguments of make or data, or 'seed', got {unknown}")
    if unknown := sorted({*static} - {*grid.names}):
        raise ValueError(f"static must be names of axes, got {unknown}")
    if SEED in grid.names:
        for value in grid.values[grid.names.index(SEED)]:
            _validate.seed(seed=value)
    traced = frozenset(name for name in of_make if _is_numeric(grid, name)) - {*static} - of_data
    return Roles(of_make - traced, traced, of_data)


def groups(grid: Grid, roles: Roles) -> list[Group]:
    """Points by what is static for `make`, then by samples; in order of their first point."""
    at = lambda point, names: tuple(i for i, name in zip(point, grid.names, strict=True) if name in names)
    found: dict[Point, dict[Point, list[Point]]] = {}
    for point in grid.points:
        found.setdefault(at(point, roles.static), {}).setdefault(at(point, roles.data), []).append(point)
    firsts = [next(iter(by_data.values()))[0] for by_data in found.values()]
    return [
        Group(number, {name: value for name, value in grid.at(first).items() if name in roles.static}, by_data)
        for number, (first, by_data) in enumerate(zip(firsts, found.values(), strict=True))
    ]


def _named_in(function: Callable[..., Any], grid: Grid, unless: Iterable[str]) -> frozenset[str]:
    """Axes among the arguments of a function; where it takes any, all but those it does not name that are `unless`."""
    parameters = inspect.signature(function).parameters
    takes_any = any(of.kind is of.VAR_KEYWORD for of in parameters.values())
    return frozenset(name for name in grid.names if name in parameters or (takes_any and name not in unless))


def _is_numeric(grid: Grid, name: str) -> bool:
    """Real numbers, at least one of them with a point."""
    values = grid.values[grid.names.index(name)]
    real = all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)
    return real and any(isinstance(value, float | np.floating) for value in values)

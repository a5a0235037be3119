"""Functions that carry what their author states of them; a function that wraps or replaces one states nothing."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Stated:
    """Local training, and what its author states of it: see the properties of `Local` of these names."""

    function: Callable
    steps: Any = None
    updates: Callable | None = None
    corrected: Callable | None = None
    in_place: bool = False

    def __call__(self, *args: Any) -> Any:
        """The function's result."""
        return self.function(*args)


@dataclasses.dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class RowsOptional:
    """A function of rows, and the same function for updates without rows, of which only norms and a sum are known."""

    function: Callable
    without_rows: Callable

    def __call__(self, *args: Any) -> Any:
        """The function's result."""
        return self.function(*args)


def without_rows(function: Callable) -> Callable | None:
    """The same for updates that are not rows; None: its author states none."""
    return function.without_rows if isinstance(function, RowsOptional) else None

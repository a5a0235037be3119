"""Functions that carry what their author states of them."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Stated:
    """A function, and what its author states of it; a function that wraps or replaces it states nothing."""

    function: Callable
    about: Any = None
    without_rows: Callable | None = None  # the same, for updates that are not rows; None: not possible
    corrected: Callable | None = None  # the same training, each step with a vector added; None: not possible
    in_place: bool = False  # training that takes `Rows` as `ClientData.examples`, too

    def __call__(self, *args: Any) -> Any:
        """The function's result."""
        return self.function(*args)


def without_rows(function: Callable) -> Callable | None:
    """The same for updates that are not rows; None: its author states none."""
    return function.without_rows if isinstance(function, Stated) else None

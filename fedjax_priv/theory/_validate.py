"""One-line errors that name the argument, its allowed values and what was got; arrays are checked element by element.

Each check takes one keyword, so that the message names the argument, and returns the value as float64:
`alpha = real("(0, 1]", alpha=alpha)`. `number` and `whole` take no arrays, and return a float and an int. The
package's other checks import JAX.
"""

from typing import Any, Literal, NoReturn, TypeVar

import numpy as np

T = TypeVar("T")

Numbers = float | np.number | np.ndarray
"""What a function takes: a number, or an array that is broadcast against the others."""

Result = np.float64 | np.ndarray
"""What it returns: a number, or an array where an argument was one."""

Change = Literal["zero-out", "replacement"]
"""What becomes of a client in a neighbouring data set: it sends noise alone, or something else."""


def fail(name: str, value: Any, allowed: str) -> NoReturn:
    """Raises the error."""
    raise ValueError(f"{name} must be {allowed}, got {' '.join(repr(value).split())}")


def integer(at_least: int = 1, **named: Any) -> np.ndarray:
    """Integers, not below a bound."""
    ((name, value),) = named.items()
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or (array < at_least).any():
        fail(name, value, f"an integer >= {at_least}")
    return array.astype(np.float64)


def real(interval: str, condition: str = "", **named: Any) -> np.ndarray:
    """Numbers in an interval such as "(0, 1]" or "[0, inf)"; `condition` says whose it is."""
    ((name, value),) = named.items()
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or not _within(interval, array):
        fail(name, value, f"in {interval}{condition}")
    return array.astype(np.float64)


def number(interval: str, **named: Any) -> float:
    """A number in an interval, as in `real`; no array of them."""
    ((name, value),) = named.items()
    array = real(interval, **named)
    if array.ndim:
        fail(name, value, f"one number in {interval}")
    return float(array)


def whole(at_least: int = 1, **named: Any) -> int:
    """An integer, not below a bound; no array of them."""
    ((name, value),) = named.items()
    array = integer(at_least, **named)
    if array.ndim:
        fail(name, value, f"one integer >= {at_least}")
    return int(array)


def choice(allowed: dict[str, T], **named: Any) -> T:
    """What a name stands for."""
    ((name, value),) = named.items()
    if not isinstance(value, str) or value not in allowed:
        fail(name, value, f"one of {', '.join(map(repr, allowed))}")
    return allowed[value]


def dropout(value: Any) -> np.ndarray:
    """Theta, where a quantity is defined for more of it than the protocols survive."""
    return real("[0, 1)", dropout=value)


def adversarial(value: Any) -> np.ndarray:
    """Gamma."""
    return real("[0, 0.5)", " (a minority of the users)", adversarial=value)


def _within(interval: str, array: np.ndarray) -> bool:
    low, high = map(float, interval[1:-1].split(","))
    above = array >= low if interval[0] == "[" else array > low
    below = array <= high if interval[-1] == "]" else array < high
    return bool((above & below).all())

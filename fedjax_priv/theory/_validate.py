"""Checks with one-line errors that name the argument, its allowed values and its value; arrays by element.

Each check takes one keyword argument, whose name is in the error, and returns the value as float64:
`alpha = real("(0, 1]", alpha=alpha)`. `number` and `whole` take no arrays, and return a float and an int. These checks
are separate from the package's other ones, which import JAX.
"""

from typing import Any, Literal, NoReturn, TypeVar

import numpy as np

T = TypeVar("T")

LONGEST = 2**20
"""Of arrays with one number for each round, band or user: longer ones take minutes, or more memory than there is."""

Numbers = float | np.number | np.ndarray
"""An argument: a number, or an array that is broadcast against the others."""

Result = np.float64 | np.ndarray
"""A result: a number, or an array if an argument was an array."""

Change = Literal["zero-out", "replacement"]
"""What a client does in the adjacent input: it sends only noise, or another vector."""


def fail(name: str, value: Any, allowed: str) -> NoReturn:
    """Raises ValueError for this argument."""
    raise ValueError(f"{name} must be {allowed}, got {' '.join(repr(value).split())}")


def integer(at_least: int = 1, **named: Any) -> np.ndarray:
    """Integers >= `at_least`."""
    ((name, value),) = named.items()
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or (array < at_least).any():
        fail(name, value, f"an integer >= {at_least}")
    return array.astype(np.float64)


def real(interval: str, condition: str = "", **named: Any) -> np.ndarray:
    """Numbers in an interval such as "(0, 1]" or "[0, inf)"; `condition` is appended to the error's range."""
    ((name, value),) = named.items()
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or not _within(interval, array):
        fail(name, value, f"in {interval}{condition}")
    return array.astype(np.float64)


def number(interval: str, **named: Any) -> float:
    """One number in an interval, as in `real`; not an array."""
    ((name, value),) = named.items()
    array = real(interval, **named)
    if array.ndim:
        fail(name, value, f"one number in {interval}")
    return float(array)


def whole(at_least: int = 1, at_most: float = np.inf, **named: Any) -> int:
    """One integer from `at_least` to `at_most`; not an array."""
    ((name, value),) = named.items()
    array = integer(at_least, **named)
    if array.ndim:
        fail(name, value, f"one integer >= {at_least}")
    if array > at_most:
        fail(name, value, f"an integer from {at_least} to {at_most}")
    return int(array)


def length(at_least: int = 1, **named: Any) -> int:
    """One integer that arrays are as long as, such as of rounds or users: from `at_least` to 2^20."""
    return whole(at_least, LONGEST, **named)


def setting(kind: type[T], **named: Any) -> T:
    """A setting of that kind, whose fields are not checked."""
    ((name, value),) = named.items()
    if not isinstance(value, kind):
        fail(name, value, f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}")
    return value


def flag(**named: Any) -> bool:
    """A truth value, Python's or NumPy's."""
    ((name, value),) = named.items()
    if not isinstance(value, bool | np.bool_):
        fail(name, value, "one of True, False")
    return bool(value)


def choice(allowed: dict[str, T], **named: Any) -> T:
    """The value that `allowed` has for a name."""
    ((name, value),) = named.items()
    if not isinstance(value, str) or value not in allowed:
        fail(name, value, f"one of {', '.join(map(repr, allowed))}")
    return allowed[value]


def dropout(value: Any) -> np.ndarray:
    """Theta in [0, 1), also above the fraction that the protocols survive."""
    return real("[0, 1)", dropout=value)


def adversarial(value: Any) -> np.ndarray:
    """Gamma in [0, 0.5)."""
    return real("[0, 0.5)", " (a minority of the users)", adversarial=value)


def _within(interval: str, array: np.ndarray) -> bool:
    low, high = map(float, interval[1:-1].split(","))
    above = array >= low if interval[0] == "[" else array > low
    below = array <= high if interval[-1] == "]" else array < high
    return bool((above & below).all())

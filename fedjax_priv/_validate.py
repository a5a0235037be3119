"""Argument checks, with one-line errors that name the argument, what it got and what is allowed.

Each check takes keywords, which give the name: `positive(lr=lr)`. Traced values pass, since they are unknown until the
program runs; there, values out of range set a status bit.
"""

import inspect
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

LEAST, LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
"""Magnitudes of float32 numbers other than 0; XLA takes smaller ones for 0."""


def _fail(name: str, value: Any, allowed: str) -> None:
    raise ValueError(f"{name} must be {allowed}, got {in_one_line(value)}")


def in_one_line(value: Any) -> str:
    """As Python prints it, without the line breaks of arrays."""
    return " ".join(repr(value).split())


def _known(value: Any) -> bool:
    return not isinstance(value, Tracer)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or getattr(value, "dtype", None) == np.bool_


def _number(value: Any) -> float:
    if isinstance(value, str | bytes) or _is_bool(value):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def is_known_as(number: float, value: Any) -> bool:
    """Whether a value is known to be this number, of whatever type."""
    return _known(value) and _number(value) == number


def is_known_below(value: Any, bound: Any) -> bool:
    """Whether both are known numbers, and `value` is the smaller one."""
    return _known(value) and _known(bound) and _number(value) < _number(bound)


def is_same(value: Any, choice: Any) -> bool:
    """Whether a value is known to be this number or choice; an array of several numbers is none."""
    if isinstance(choice, int | float) and not isinstance(choice, bool):
        return is_known_as(choice, value)
    return _is_choice(_plain(value), choice)


def integer(at_least: int = 1, **values: Any) -> int:
    """Integers >= `at_least`, Python's or NumPy's; returns the last one as Python's.

    They must be static, so a traced value fails, and so does an array of one integer, which cannot be hashed.
    """
    number = at_least
    for name, value in values.items():
        try:
            number = at_least - 1 if _is_bool(value) or isinstance(value, np.ndarray | Array) else operator.index(value)
        except TypeError:
            number = at_least - 1
        if number < at_least:
            _fail(name, value, f"an integer >= {at_least}")
    return number


def seed(**values: Any) -> None:
    """Integers in [0, 2**32)."""
    integer(at_least=0, **values)
    for name, value in values.items():
        if value >= 2**32:
            _fail(name, value, "an integer below 2**32")


def known(**values: Any) -> None:
    """Values that a program is compiled for, and so cannot be traced."""
    for name, value in values.items():
        if not _known(value):
            raise ValueError(f"{name} must be known when the program is compiled (static in a sweep), got a tracer")


def _held(values: dict[str, Any], fits: Callable[[float], bool], allowed: str) -> Any:
    """As `_numbers`; float32 must hold them, too: as neither 0 nor infinity, unless they are.

    An integer that int32 does not hold is returned as a float, since JAX takes it for an int32.
    """
    last = _numbers(values, fits, allowed)
    held = lambda x: x == 0 or LEAST <= abs(x) <= LARGEST
    _numbers(values, held, f"a number that float32 holds, of magnitude {LEAST:.2g} to {LARGEST:.2g}")
    return float(last) if isinstance(last, int | np.integer) and abs(int(last)) >= 2**31 else last


def _numbers(values: dict[str, Any], fits: Callable[[float], bool], allowed: str) -> Any:
    """Checks all known values; returns the last."""
    for name, value in values.items():
        if _known(value) and not fits(_number(value)):
            _fail(name, value, allowed)
    return [*values.values()][-1]


def finite(**values: Any) -> Any:
    """Finite numbers; returns the last one, NaN where it is traced and not finite."""
    return or_nan(_held(values, math.isfinite, "a finite number"))


def positive(**values: Any) -> Any:
    """Finite numbers > 0; returns the last one, NaN where it is traced and out of range."""
    return or_nan(_held(values, lambda x: 0 < x < math.inf, "a finite number > 0"), above=0)


def above_zero(**values: Any) -> Any:
    """Numbers > 0, infinity included; returns the last one, NaN where it is traced and out of range."""
    value = _numbers(values, lambda x: x > 0, "a number > 0")
    return value if _known(value) else jnp.where(value > 0, value, jnp.nan)


def non_negative(**values: Any) -> Any:
    """Finite numbers >= 0; returns the last one, NaN where it is traced and out of range."""
    return or_nan(_held(values, lambda x: 0 <= x < math.inf, "a finite number >= 0"), at_least=0)


def fraction(*, below_one: bool = False, above_zero: bool = False, **values: Any) -> Any:
    """Numbers in [0, 1]; `below_one` and `above_zero` exclude that end.

    Returns the last one, NaN where it is traced and out of range.
    """
    allowed = f"a number in {'(' if above_zero else '['}0, 1{')' if below_one else ']'}"
    value = _numbers(values, lambda x: 0 <= x <= 1 and not ((above_zero and x == 0) or (below_one and x == 1)), allowed)
    low, high = {"above" if above_zero else "at_least": 0}, {"below" if below_one else "at_most": 1}
    return or_nan(value, **low, **high)


def decibels(**values: Any) -> Any:
    """Numbers of dB in [-300, 300], whose powers float32 holds; returns the last one, as `fraction` does."""
    value = _numbers(values, lambda x: -300 <= x <= 300, "a number of dB in [-300, 300]")
    return or_nan(value, at_least=-300, at_most=300)


def at_least_one(**values: Any) -> Any:
    """Finite numbers >= 1; returns the last one, NaN where it is traced and out of range."""
    return or_nan(_held(values, lambda x: 1 <= x < math.inf, "a finite number >= 1"), at_least=1)


def up_to(bound: float, **values: Any) -> Any:
    """Numbers > 0, up to a bound; returns the last one, NaN where it is traced and out of range."""
    return or_nan(_numbers(values, lambda x: 0 < x <= bound, f"a number in (0, {bound:g}]"), above=0, at_most=bound)


def at_most(bound: float, **values: Any) -> None:
    """Static numbers > 0, up to a bound."""
    known(**values)
    up_to(bound, **values)


def each(check: Callable[..., Any], **values: Any) -> None:
    """Applies a check to a number, or to every number of an array that has some: `each(positive, power=power)`."""
    for name, value in values.items():
        if not np.size(value):
            _fail(name, value, "a number or an array of numbers")
        for number in np.ravel(value).tolist() if _known(value) else ():
            check(**{name: number})


def chances(**values: Any) -> None:
    """Probabilities in [0, 1], one for all clients or an array, with which somebody may come."""
    each(fraction, **values)
    for name, value in values.items():
        if _known(value) and not np.any(np.asarray(value) > 0):
            _fail(name, value, "in [0, 1], and above 0 for at least one client")


def array(check: Callable[..., Any], **values: Any) -> Any:
    """As `each`, for one argument; returns it as float32, NaN where it is traced and out of range."""
    each(check, **values)
    ((name, value),) = values.items()
    return jnp.asarray(value, jnp.float32) if _known(value) else check(**{name: jnp.asarray(value, jnp.float32)})


def per_client(num_clients: int, **values: Any) -> None:
    """One number for all clients, or one per client of the population."""
    allowed = f"a number, or one per client; shape () or ({num_clients},)"
    for name, value in values.items():
        if np.shape(value) not in ((), (num_clients,)):
            _fail(name, np.shape(value), allowed)


def below_half(**values: Any) -> None:
    """Static numbers in [0, 1/2)."""
    known(**values)
    _numbers(values, lambda x: 0 <= x < 0.5, "a number in [0, 1/2)")


def or_nan(
    value: Any,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> Any:
    """A traced value where it is in range, else NaN, so that results are not finite and set the status bit."""
    if _known(value):
        return value
    inside = (value > above) & (value >= at_least) & (value < below) & (value <= at_most)
    return jnp.where(inside, value, jnp.nan)


def one_of(allowed: Any, **values: Any) -> None:
    """One of the allowed values, or NumPy's scalar of one."""
    for name, value in values.items():
        if not any(_is_choice(_plain(value), choice) for choice in allowed):
            if not allowed:
                raise ValueError(f"{name} has nothing to choose from here, got {value!r}")
            _fail(name, value, "one of " + ", ".join(map(repr, allowed)))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_choice(value: Any, choice: Any) -> bool:
    """Whether it is that value and of its kind: 1.0 is 1, but True is not."""
    kind = int | float if isinstance(choice, int) else type(choice)
    return isinstance(value, kind) and _is_bool(value) == _is_bool(choice) and value == choice


def part(kind: type, example: str, **values: Any) -> None:
    """Values of a type of `base`; a function in its place is probably a factory that was not called."""
    for name, value in values.items():
        if not isinstance(value, kind):
            article = "an" if kind.__name__[0] in "AEIOU" else "a"
            raise ValueError(f"{name} must be {article} {kind.__name__}, such as {example}, got {_kind(value)}")


def function(num_arguments: int, example: str, **values: Any) -> None:
    """Functions of so many arguments; one of another number is probably a factory that was not called."""
    for name, value in values.items():
        if not callable(value) or not _takes(value, num_arguments):
            got = repr(value) if isinstance(value, str) else _kind(value)
            plural = "s" if num_arguments > 1 else ""
            raise ValueError(
                f"{name} must be a function of {num_arguments} argument{plural}, such as {example}, got {got}"
            )


def named_results(results: Any) -> None:
    """At least one result of a run by name; a result alone is a mapping, too, and is none."""
    if not isinstance(results, Mapping) or hasattr(results, "data_vars") or not results:
        got = "none" if isinstance(results, Mapping) and not results else _kind(results)
        raise ValueError(f"results must be at least one result by name, such as {{'FedAvg': result}}, got {got}")


def takes(arguments: str, **functions: Any) -> None:
    """Functions of these arguments, such as `"key, x, cohort"`, whatever they call them."""
    for name, value in functions.items():
        if not callable(value) or not _takes(value, arguments.count(",") + 1):
            got = f"one of {inspect.signature(value)}" if callable(value) else _kind(value)
            raise ValueError(f"{name} must be a function of ({arguments}), got {got}")


def returned(number: int, kinds: str, **values: Any) -> None:
    """Tuples that functions returned, with so many values, such as `"y [b, ...], state, Sent"`."""
    for name, value in values.items():
        if type(value) is not tuple or len(value) != number:
            got = f"{len(value)} values" if type(value) is tuple else made(value)
            raise ValueError(f"{name} must return ({kinds}), got {got}")


def made(value: Any) -> str:
    """What a function returned, in words."""
    return f"an array of shape {np.shape(value)}" if hasattr(value, "dtype") else type(value).__name__


def _takes(function: Callable[..., Any], num_arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*range(num_arguments))
    except TypeError:
        return False
    except ValueError:  # written in C, without a signature
        pass
    return True


def _kind(value: Any) -> str:
    called = getattr(value, "__name__", "<lambda>")
    return type(value).__name__ if called == "<lambda>" else f"{called}, which may have to be called first"


def minority(of: dict[str, Any], **values: Any) -> None:
    """`minority({"num_clients": n}, num_byzantine=f)` checks that `f` is an integer from 0 to below `n / 2`."""
    ((name_of_all, number),) = of.items()
    integer(**of)
    integer(at_least=0, **values)
    for name, value in values.items():
        if 2 * value >= number:
            raise ValueError(f"{name} must be below {name_of_all} / 2 = {number / 2:g}, got {value}")


def divides(divisor: dict[str, int], **values: int) -> None:
    """`divides({"group_size": s}, num_clients=n)` checks that `n` is a multiple of `s`."""
    ((divisor_name, by),) = divisor.items()
    for name, value in values.items():
        if value % by:
            _fail(name, value, f"a multiple of {divisor_name} = {by}")

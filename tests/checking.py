"""What annotations promise, checked at every call: beartype, asked once for each signature.

A round is made of closures, which are defined anew with every system; what is checked of them is the same. A check is
written at the first call: a process of the tests imports everything and calls a part.
"""

import functools
from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))
_checked: dict[tuple, Callable] = {}
_UNCHECKED = "_of_systems.<locals>.command"
"""Its parameter is a union of classes that are made anew for each command. From Python 3.14 on, beartype treats unions
that print alike as one."""


def typechecked(signature: Callable[..., Any]) -> Callable[..., Any]:
    """For jaxtyping, which gives functions that have a signature and do nothing."""
    key = (
        signature.__module__, signature.__qualname__, signature.__code__, len(signature.__defaults__ or ()),
        *(signature.__kwdefaults__ or ()), *signature.__annotations__.items(),
    )  # fmt: skip
    if key not in _checked:
        unchecked = signature.__qualname__ == _UNCHECKED
        _checked[key] = signature if unchecked else _when_called(signature)
    return _checked[key]


def _when_called(signature: Callable[..., Any]) -> Callable[..., Any]:
    made = functools.cache(lambda: _check(signature))
    return lambda *args, **kwargs: made()(*args, **kwargs)

"""Types of values that a command line can give."""

import collections.abc
import contextlib
import functools
import operator
import pathlib
import types
import typing
from typing import Annotated, Any, Literal

import jax
import numpy as np
from jaxtyping import AbstractArray

_PLAIN = (bool, int, float, str, pathlib.Path)
_TRUTH = {"true": True, "false": False}
_PLACEHOLDERS = {bool: "{True,False}", int: "INT", float: "NUMBER", str: "TEXT", pathlib.Path: "PATH"}
_WORDS = {bool: "true or false", int: "an integer", float: "a number", str: "text", pathlib.Path: "a path"}


def command_line_type(annotation: Any) -> Any | None:
    """The type of an option for a parameter, None where a command line cannot give it.

    Plain types, literals and unions of them, and None, stay as they are. Of names or an object, names are left. A
    number that can be an array as well is a number, and a sequence of plain values a tuple.
    """
    members = _members(annotation)
    number = next((kind for kind in (float, int) if kind in members), None)
    if number is not None and any(map(_is_array, members)):
        return number | None if types.NoneType in members else number
    if typing.get_origin(annotation) is collections.abc.Sequence and typing.get_args(annotation)[0] in _PLAIN:
        return tuple[typing.get_args(annotation)[0], ...]
    given = [member for member in members if member in _PLAIN or _is_literal(member)]
    others = [member for member in members if member not in given]
    if given and others and types.NoneType not in others and all(map(_is_literal, given)):
        return functools.reduce(operator.or_, given)
    return annotation if given and {*others} <= {types.NoneType} else None


def placeholder(kind: Any) -> str | None:
    """What stands for the value in the help, as in `--rounds INT`; None for a flag and for what tyro shows itself."""
    if typing.get_origin(kind) is Annotated:  # an option that is given again and again, with one value each time
        return _placeholder(typing.get_args(typing.get_args(kind)[0])[0])
    members = [member for member in _members(kind) if member is not types.NoneType]
    words = [_placeholder(member) for member in members]
    return None if kind is bool or None in words else "|".join(filter(None, words))


def _placeholder(member: Any) -> str | None:
    if typing.get_origin(member) is tuple:
        one = _placeholder(typing.get_args(member)[0])
        return f"{one} [{one} ...]"
    return "{" + ",".join(map(str, typing.get_args(member))) + "}" if _is_literal(member) else _PLACEHOLDERS.get(member)


def parse(name: str, kind: Any, text: str) -> Any:
    """The value a text stands for, in the first of the types in question that has it.

    Args:
      name: of the option.
      kind: a plain type, literals, None or a union of them.
      text: what was written.

    Raises:
      ValueError: there is no such value.
    """
    members = sorted(_members(kind), key=lambda member: member is not types.NoneType)
    for member in members:
        with contextlib.suppress(ValueError, KeyError):
            return _read(member, text)
    raise ValueError(f"{name} must be {' or '.join(map(_in_words, members))}, got {text!r}")


def _read(member: Any, text: str) -> Any:
    if _is_literal(member):
        return {str(value): value for value in typing.get_args(member)}[text]
    if member is types.NoneType:
        return {"none": None}[text.lower()]
    return _TRUTH[text.lower()] if member is bool else member(text)


def _in_words(member: Any) -> str:
    if _is_literal(member):
        return "one of " + ", ".join(map(repr, typing.get_args(member)))
    return "none" if member is types.NoneType else _WORDS[member]


def _members(kind: Any) -> tuple:
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def _is_literal(kind: Any) -> bool:
    return typing.get_origin(kind) is Literal


def _is_array(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, jax.Array | np.ndarray | np.generic | AbstractArray)

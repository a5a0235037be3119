"""Help for a shell user, from docstrings that are written for callers from Python.

A docstring says to whom a sentence speaks: one that begins "In Python" is left out here.
"""

import functools
import re
from collections.abc import Callable, Collection

import docstring_parser

import fedjax_priv
from fedjax_priv import aggregators, attacks, channels, clients, data, layers, models, systems

ROOMS = (fedjax_priv, systems, aggregators, attacks, layers, clients, channels, data, models)
"""Where functions are looked up that a docstring refers to."""

_FOR_PYTHON = [
    (r"(?:^|(?<=[.;] ))In Python\b[^.]*(?:\.(?! |$)[^.]*)*(?:\. ?|$)", ""),
    (r" ?\(in `memory`[^)]*\)", ""),
    (r"(?:^|[;,] )(?:it )?may be\straced(?=[;,.]|$)", ""),
    (r"(?:^|(?<=[.] ))It cannot be traced(?:\. ?|$)", ""),
    (r", numbers that are not traced(?= and)", ""),
    (r"; static unless [^.;]*", ""),
    (r": a number, `\[n\]`, or a function of the round", ""),
    (r",? (?:of every client )?or (?:an array )?`\[n\]`", ""),
    (r",? ?(?:see|as in) `[\w.]+`| \(`[\w.]+`\)", ""),
    (r"(^|[.] )None (?=[a-z])", r"\1Leaving it out "),
    (r"\bNone:", "if left out:"),
    (r"\bNone (?=[a-z])", "leaving it out "),
]
"""Patterns, and what a shell user reads instead."""


def parameter_help(function: Callable) -> dict[str, str]:
    """Help for the parameters of a function, from its Google docstring.

    "as in `f`" at the beginning becomes what the docstring of `f` says. Names of options stay in backquotes; see
    `with_flags`.
    """
    return {name: _for_shell(_resolved(name, text)) for name, text in _described(function).items()}


def with_flags(text: str, options: Collection[str]) -> str:
    """Names of options as they are typed, and no backquotes but around functions, which no shell user can look up."""
    flag = lambda name: "--" + name.replace("_", "-")
    text = re.sub(r'`(\w+)="?([\w.]+)"?`', lambda m: f"{flag(m[1])} {m[2]}" if m[1] in options else m[0], text)
    text = re.sub(r"`(\w+)`", lambda m: flag(m[1]) if m[1] in options else m[0], text)
    text = re.sub(r"(?<![\w-])\w+_\w+", lambda m: flag(m[0]) if m[0] in options else m[0], text)
    return re.sub(r"`([^`]*)`", lambda m: m[0] if _is_reference(m[1]) else m[1], text)


@functools.cache
def _described(function: Callable) -> dict[str, str]:
    parsed = docstring_parser.parse(function.__doc__ or "", docstring_parser.DocstringStyle.GOOGLE)
    return {param.arg_name: " ".join((param.description or "").split()) for param in parsed.params}


def _resolved(name: str, text: str) -> str:
    reference = re.match(r"as in `(?:\w+\.)*(\w+)`", text, re.IGNORECASE)
    function = _found(reference[1]) if reference else None
    if reference is None or function is None or name not in _described(function):
        return text
    return _resolved(name, _described(function)[name]).removesuffix(".") + text[reference.end() :]


def _found(name: str) -> Callable | None:
    return next((getattr(room, name) for room in ROOMS if callable(getattr(room, name, None))), None)


def _for_shell(text: str) -> str:
    for pattern, instead in _FOR_PYTHON:
        text = re.sub(pattern, instead, text)
    text = text.strip(" ;,")
    return text[:1].lower() + text[1:] if re.match(r"[A-Z][a-z]+\b|A \w", text) else text


def _is_reference(quoted: str) -> bool:
    return bool(re.fullmatch(r"[a-z]\w+(\.[a-z]\w+)+", quoted)) or _found(quoted) is not None

"""Axes of a sweep as they are written on a command line: `learning-rate=0.05,0.1`."""

from collections.abc import Collection, Sequence
from typing import Any

from fedjax_priv.cli.option_types import parse
from fedjax_priv.cli.options import Options

HOW = "NAME=VALUE,VALUE,..."


def parse_axes(texts: Sequence[str], options: Options, fixed: Collection[str]) -> dict[str, list[Any]]:
    """Names and values of the axes.

    Args:
      texts: one axis each; a name may be written with dashes.
      options: that can be axes; values are read as the option is.
      fixed: other options of the command, which all points of a sweep share.

    Raises:
      ValueError: a text is no axis, its option is not one of those or comes twice, or a value is not of its type or
        comes twice.
    """
    axes: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise ValueError(f"axis must be {HOW}, got {text!r}")
        if name in axes:
            raise ValueError(f"axis must name an option once, got {name} twice")
        axes[name] = _values(name, values, options, fixed)
    if not axes:
        raise ValueError(f"axis must be given, as {HOW}")
    return axes


def _values(name: str, text: str, options: Options, fixed: Collection[str]) -> list[Any]:
    if name in fixed:
        raise ValueError(f"axis must not change data, model or rounds: run one sweep per value of {name} instead")
    if name not in options:
        raise ValueError(f"axis must be one of {', '.join(options)}, got {name!r}")
    values = [parse(name, options[name].type, value.strip()) for value in text.split(",")]
    if len({*values}) < len(values):
        raise ValueError(f"axis {name} must have each value once, got {text}")
    return values

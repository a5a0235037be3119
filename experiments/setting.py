"""In what a configuration differs from the paper's, so that a verdict says of which setting it speaks."""

from collections.abc import Mapping
from typing import Any

PRECISION = frozenset(
    {
        "block",
        "timed_rounds",
        "seed",
        "repeats",
        "controls",
        "evaluations",
        "every",
        "at_once",
        "points",
        "rates",
        "widenings",
    }
)
"""Fields that change how sure a result is and how finely it is drawn, not what is run."""


def differences(config: Any, papers: Any) -> str:
    """Fields whose values are not the paper's, as text; empty if there are none.

    Fields of `PRECISION` do not count, nor do fewer values of an axis or fewer methods than the paper has.
    """
    return ", ".join(_found(config, papers, ""))


def _found(ours: Any, theirs: Any, name: str) -> list[str]:
    if ours == theirs or name.rpartition(".")[2] in PRECISION:
        return []
    if hasattr(ours, "_fields") and type(ours) is type(theirs):
        pairs = zip(ours._fields, ours, theirs, strict=True)
        return list(dict.fromkeys(found for field, one, other in pairs for found in _found(one, other, field)))
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        common = ((ours[key], theirs[key]) for key in ours if key in theirs)
        return list(dict.fromkeys(found for one, other in common for found in _found(one, other, name)))
    if isinstance(ours, tuple) and isinstance(theirs, tuple) and _is_less_of_an_axis(ours, theirs):
        return []
    return [f"{name} {_said(ours)} (paper: {_said(theirs)})"]


def _is_less_of_an_axis(ours: tuple, theirs: tuple) -> bool:
    """The values of an axis differ from each other; layers of a network, say, need not."""
    return all(len(set(values)) == len(values) for values in (ours, theirs)) and set(ours) <= set(theirs)


def _said(value: Any) -> str:
    if value is None:
        return "all"
    if isinstance(value, tuple):
        return " ".join(map(_said, value))
    return f"{value:,}" if isinstance(value, int) else str(value)

"""The text of optimized HLO, as `compiled.as_text()` gives it: computations and their instructions."""

import math
import re
from typing import NamedTuple

_LINE = re.compile(r"\s*(?:ROOT )?%([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)")
_ARRAY = re.compile(r"([a-z]+)(\d*)(?:e\d+m\d+\w*)?\[([\d,]*)\]")


class Line(NamedTuple):
    """An instruction."""

    name: str
    shape: str
    op: str
    inside: str  # of its parentheses
    rest: str
    is_root: bool

    @property
    def operands(self) -> list[str]:
        """Names of operands."""
        return re.findall(r"%([\w.\-]+)", self.inside)


def computations(text: str) -> tuple[dict[str, list[Line]], str]:
    """Instructions of each computation, and the name of the one that runs first."""
    bodies, entry = {}, ""
    for part in re.split(r"\n\s*\n", text):
        head = re.match(r"\s*(ENTRY )?%?([\w.\-]+) .*\{\s*$", part.splitlines()[0]) if part.strip() else None
        if head:
            bodies[head[2]] = [line for row in part.splitlines()[1:] if (line := _line(row))]
            entry = head[2] if head[1] else entry
    if not entry:
        raise ValueError("text must be the HLO of a program, with an ENTRY computation")
    return bodies, entry


def _line(row: str) -> Line | None:
    found = _LINE.match(row)
    if not found:
        return None
    depth, end = 1, 0
    for end, letter in enumerate(found[4]):  # noqa: B007
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if not depth:
            break
    return Line(found[1], found[2], found[3], found[4][:end], found[4][end:], "ROOT %" in row)


def attribute(name: str, rest: str) -> str:
    """An attribute of an instruction, from the text after its operands; empty if it is not there."""
    found = re.search(rf"\b{name}=%?([\w.\-]+)", rest)
    return found[1] if found else ""


def sizes(shape: str) -> list[tuple[int, int]]:
    """Elements and bytes of each array in a shape."""
    arrays = []
    for _, bits, dims in _ARRAY.findall(shape):
        elements = math.prod(int(d) for d in dims.split(",") if d)
        arrays.append((elements, elements * max(1, int(bits or 8) // 8)))
    return arrays


def num_bytes(shape: str) -> int:
    """Of all arrays in a shape."""
    return sum(size for _, size in sizes(shape))


def dims(shape: str) -> list[int]:
    """Of the first array in a shape."""
    return [int(d) for d in _ARRAY.findall(shape)[0][2].split(",") if d]

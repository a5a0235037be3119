"""How often a loop turns, from optimized HLO."""

import re

from experiments.accelerators.hlo import Line, attribute


def turns(loop: Line, table: dict[str, Line], bodies: dict[str, list[Line]]) -> int | None:
    """Turns of a loop, as the compiler notes them, or of a counter that grows by 1 up to a constant; None: unknown."""
    noted = re.search(r'known_trip_count":\{"n":"(\d+)"', loop.rest)
    if noted:
        return int(noted[1])
    condition, body = ({one.name: one for one in bodies[attribute(part, loop.rest)]} for part in ("condition", "body"))
    start = table[loop.operands[0]]
    test, last = (next(one for one in part.values() if one.is_root) for part in (condition, body))
    if test.op != "compare" or "direction=LT" not in test.rest or "tuple" not in (start.op, last.op):
        return None
    place = _carried(test.operands[0], condition)
    end = _constant(test.operands[1], condition, start, table)
    if place is None or end is None:
        return None
    first = _constant(start.operands[place], table, start, table)
    step = body.get(last.operands[place])
    if first is None or step is None or step.op != "add" or _carried(step.operands[0], body) != place:
        return None
    return end - first if _constant(step.operands[1], body, start, table) == 1 else None


def _copied(name: str, table: dict[str, Line]) -> Line:
    """What a line copies, or the line itself."""
    line = table[name]
    while line.op in ("copy", "bitcast"):
        line = table[line.operands[0]]
    return line


def _carried(name: str, table: dict[str, Line]) -> int | None:
    """The place in what a loop carries that a line of its condition or body reads."""
    line = _copied(name, table)
    index = re.search(r"index=(\d+)", line.rest)
    return int(index[1]) if line.op == "get-tuple-element" and index else None


def _constant(name: str, table: dict[str, Line], start: Line, outside: dict[str, Line]) -> int | None:
    """The integer that a line is, also by way of what a loop starts from."""
    line = _copied(name, table)
    if line.op == "constant" and line.inside.lstrip("-").isdigit():
        return int(line.inside)
    place = _carried(line.name, table)
    return None if place is None or table is outside else _constant(start.operands[place], outside, start, outside)

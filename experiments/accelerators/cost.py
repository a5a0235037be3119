"""What a compiled program costs, counted in the text of its optimized HLO; loops of known length count each turn.

- kernels: instructions that run one after the other; what only names or cuts a buffer is none;
- loops: while loops whose length the compiler does not know, each counted as one turn;
- bytes: what kernels read and write in memory, each operand and result once. Of an operand that a kernel only slices,
  gathers or updates in place, be it after other arithmetic, the part that it touches;
- flops: of matrix products and convolutions, 2 for each product and sum; byte_flops: those of products of bytes;
- operations: numbers that other arithmetic computes, inside kernels, and on which their results depend.

Of a conditional, the dearest branch counts.
"""

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

from experiments.accelerators.hlo import Line, attribute, computations, num_bytes, sizes
from experiments.accelerators.loops import turns
from experiments.accelerators.products import is_of_bytes, product

_FREE = """
parameter constant tuple get-tuple-element bitcast after-all while conditional call opt-barrier partition-id copy-done
async-done async-update fusion-done slice-done all-reduce-done all-gather-done collective-permute-done
"""
_ARITHMETIC = """
add subtract multiply divide remainder power exponential log log-plus-one tanh sqrt rsqrt negate abs sign floor and or
xor not shift-left shift-right-logical shift-right-arithmetic compare select maximum minimum clamp convert popcnt clz
reduce reduce-window cosine sine round-nearest-even exponential-minus-one is-finite
"""
_PARTS = {"dynamic-slice", "slice", "gather"}
_ALIKE = {*_ARITHMETIC.split(), "bitcast", "reshape", "transpose", "copy", "get-tuple-element"} - {"reduce-window"}
"""A part of their result depends on as large a part of each operand."""
_BRANCHES = re.compile(r"(?:true_computation|false_computation)=%?([\w.\-]+)")


class Cost(NamedTuple):
    """What a computation costs, and what computations it calls cost."""

    kernels: int = 0
    loops: int = 0
    bytes: int = 0
    flops: int = 0
    operations: int = 0
    byte_flops: int = 0

    def plus(self, other: "Cost", times: int = 1) -> "Cost":
        """This and the other one so many times; a loop is counted once."""
        total = [a + times * b for a, b in zip(self, other, strict=True)]
        return Cost(*total)._replace(loops=self.loops + other.loops)


def cost(text: str) -> Cost:
    """The cost of a program.

    Args:
      text: optimized HLO, as `compiled.as_text()`.
    """
    bodies, entry = computations(text)

    @functools.cache
    def of(name: str) -> Cost:
        table = {line.name: line for line in bodies[name]}
        total = Cost()
        for line in bodies[name]:
            total = total.plus(_called(line, table, bodies, of))
            if line.op not in _FREE.split():
                inside = bodies.get(attribute("calls", line.rest) or "", [])
                own = Cost(1, 0, _moved(line, table, inside), *_computed(line, table, bodies))
                total = total.plus(own)
        return total

    return of(entry)


def _called(line: Line, table: dict[str, Line], bodies: dict[str, list[Line]], of: Callable[[str], Cost]) -> Cost:
    """Of the computations that a loop, a conditional or a call runs."""
    if line.op == "while":
        times = turns(line, table, bodies)
        return Cost(loops=times is None).plus(of(attribute("body", line.rest)), 1 if times is None else times)
    if line.op == "conditional":
        names = _BRANCHES.findall(line.rest)
        for group in re.findall(r"branch_computations=\{(.*?)\}", line.rest):
            names += [name.strip(" %") for name in group.split(",")]
        branches = [of(name) for name in names]
        return max(branches)._replace(loops=max(branch.loops for branch in branches))
    return of(attribute("to_apply", line.rest)) if line.op == "call" else Cost()


def _moved(line: Line, table: dict[str, Line], inside: list[Line]) -> int:
    """Bytes that a kernel reads and writes."""
    if line.op in _PARTS:
        return 2 * num_bytes(line.shape)
    if line.op == "dynamic-update-slice":
        return 2 * num_bytes(table[line.operands[1]].shape)
    if not inside:
        return num_bytes(line.shape) + sum(num_bytes(table[name].shape) for name in line.operands if name in table)
    within, root, needed = {one.name: one for one in inside}, _root(inside), _needed(inside)
    in_place = root.op == "dynamic-update-slice"
    written = 2 * num_bytes(within[root.operands[1]].shape) if in_place else num_bytes(root.shape)
    return written + sum(round(needed[one.name] * num_bytes(one.shape)) for one in inside if one.op == "parameter")


def _root(inside: list[Line]) -> Line:
    return next((one for one in inside if one.is_root), inside[-1])


def _needed(inside: list[Line]) -> dict[str, float]:
    """The part of each value in a fusion on which its result depends; 1 if that is not followed."""
    within = {one.name: one for one in inside}
    needed = dict.fromkeys(within, 0.0) | ({_root(inside).name: 1.0} if inside else {})
    for one in reversed(inside):
        for place, name in enumerate(one.operands):
            if name not in needed or not needed[one.name]:
                continue
            part = needed[one.name] if one.op in _ALIKE else 1.0
            if place == 0 and one.op in _PARTS:
                part = needed[one.name] * num_bytes(one.shape) / num_bytes(within[name].shape)
            elif place == 0 and one.op == "dynamic-update-slice":  # in place
                part = 0.0
            needed[name] = min(1.0, needed[name] + part)
    return needed


def _computed(line: Line, table: dict[str, Line], bodies: dict[str, list[Line]]) -> tuple[int, int, int]:
    """Flops of products, operations of other arithmetic, and flops in bytes, of a kernel and what is fused into it."""
    flops, operations = product(line, table), 0
    in_bytes = flops if flops and is_of_bytes(line, table) else 0
    if line.op in _ARITHMETIC.split():
        operations = max([elements for elements, _ in sizes(line.shape)], default=0)
        if line.op.startswith("reduce"):
            operations = max((sizes(table[name].shape)[0][0] for name in line.operands if name in table), default=0)
    if line.op in ("fusion", "fusion-start") or (line.op == "custom-call" and "calls=" in line.rest):
        inside = bodies.get(attribute("calls", line.rest), [])
        within, needed = {one.name: one for one in inside}, _needed(inside)
        for one in inside:
            more = [round(needed[one.name] * number) for number in _computed(one, within, bodies)]
            flops, operations, in_bytes = flops + more[0], operations + more[1], in_bytes + more[2]
    return flops, operations, in_bytes

"""The command `atlas`: which parts go together, asked of the library without training anything."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

from fedjax_priv import _validate, aggregators
from fedjax_priv.aggregators.by_name import unprotected_mean
from fedjax_priv.cli.result_tables import plain_table, show_table
from fedjax_priv.systems.composition import MARKS, Stack, marks_of, why_not
from fedjax_priv.systems.composition.stack import Compress, Private

TRANSPORTS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "in the clear": {"secure": "none", "buffer_size": 1},
    "field": {"secure": "field"},
    "secagg": {"secure": "secagg"},
    "secagg, buffers": {"secure": "secagg", "buffer_size": None},
    "sparse_secagg": {"secure": "sparse_secagg", "weigh": "expected"},
    "enrolled": {"secure": "enrolled"},
    "thresholded": {"secure": "thresholded"},
    "multiple_access": {"channel": "multiple_access"},
    "orthogonal": {"channel": "orthogonal"},
})  # fmt: skip
"""How uploads travel; buffers have the size that is asked for."""
RULES = MappingProxyType({"mean": unprotected_mean(), "median": aggregators.coordinate_median()})
ON_THE_AIR = ("multiple_access", "orthogonal")


class Row(NamedTuple):
    """A stack, and what `why_not` and `marks_of` say of it."""

    transport: str
    private: str
    rule: str
    compress: str
    code: str  # of the refusal; "" if it composes
    why: str
    marks: str


def atlas(num_clients: int, num_byzantine: int, buffer_size: int) -> list[Row]:
    """Print what composes: a row for a transport, noise and rule, a column for a compression.

    Args:
      num_clients: clients in the data.
      num_byzantine: Byzantine clients, fewer than half.
      buffer_size: clients in a buffer.

    Raises:
      ValueError: a number out of range.
    """
    _validate.integer(at_least=2, num_clients=num_clients, buffer_size=buffer_size)
    _validate.divides({"buffer_size": buffer_size}, num_clients=num_clients)
    _validate.minority({"num_clients": num_clients}, num_byzantine=num_byzantine)
    rows = list(_rows(num_clients, num_byzantine, buffer_size))
    _show(rows)
    return rows


def _rows(num_clients: int, num_byzantine: int, buffer_size: int) -> Iterator[Row]:
    for names in itertools.product(TRANSPORTS, get_args(Private), RULES, get_args(Compress)):
        stack = _stack(*names, num_clients, num_byzantine, buffer_size)
        refusal = why_not(stack)
        code, why = refusal or ("", "")
        yield Row(*names, code, why, "" if refusal else marks_of(stack))


def _stack(
    transport: str, private: Any, rule: str, compress: Any, num_clients: int, num_byzantine: int, buffer_size: int
) -> Stack:
    of: dict[str, Any] = dict(TRANSPORTS[transport])
    if "buffer_size" in of and of["buffer_size"] is None:
        of["buffer_size"] = buffer_size
    air = transport in ON_THE_AIR
    noisy: dict[str, Any] = {"noise_variance": 1.0} if private != "none" else {}
    clip: dict[str, Any] = {"clip": 1.0} if noisy or air else {}
    attacked: dict[str, Any] = {} if air else {"num_byzantine": num_byzantine}  # there a draw says who is Byzantine
    if transport == "thresholded":
        of["error_feedback"] = compress == "top_k"  # clients keep what was not opened, where they are told
    return Stack(num_clients, compress, private, aggregate=RULES[rule], **of, **noisy, **clip, **attacked)


def _show(rows: Sequence[Row]) -> None:
    columns = get_args(Compress)
    table = plain_table(
        "what composes", "transport", "private", "rule", *columns, left={"transport", "private", "rule"}
    )
    for at in range(0, len(rows), len(columns)):
        line = rows[at : at + len(columns)]
        cells = (row.code or f"yes {row.marks}".strip() for row in line)
        table.add_row(line[0].transport, line[0].private, line[0].rule, *cells)
    met = {row.code: row.why for row in reversed(rows) if row.code}
    marks = {letter for row in rows for letter in row.marks}
    show_table(
        table, "refused, with the first sentence of each:", *(f"  {code}: {met[code]}" for code in sorted(met)),
        "possible, but know:", *(f"  {letter}: {MARKS[letter]}" for letter in MARKS if letter in marks),
    )  # fmt: skip

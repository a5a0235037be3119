"""All stacks of the atlas as a table with a box to search it, for the site."""

import html

import numpy as np
import xarray as xr

from experiments.atlas.measures import NOT_RUN, POSSIBLE, cells

_SEARCH = """\
<input type="search" placeholder="words that a row must have, such as: buckets Krum Skellam" style="width:100%"
 oninput="const words=this.value.toLowerCase().split(/\\s+/);document.querySelectorAll('#stacks tbody tr').forEach(
 row=>row.hidden=!words.every(word=>row.textContent.toLowerCase().includes(word)))">
"""
_COLUMNS = (
    "transport", "rule", "noise", "compression", "dropout", "without attack", "worst", "under", "kB up", "kB down",
    "proved eps", "of a round", "audit shows", "rounds skipped", "uncovered", "marks", "or why not",
)  # fmt: skip


def table(data: xr.Dataset) -> str:
    """HTML that stands in a page of Markdown."""
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    rows = "\n".join(_row(cell, row) for cell, row in cells(data))
    return f'{_SEARCH}<table id="stacks"><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>\n'


def _row(cell: tuple, row: dict) -> str:
    number = lambda name, form: format(row[name], form) if np.isfinite(row[name]) else "-"
    refused = row["code"] not in (POSSIBLE, NOT_RUN)
    why = f"{row['code']}: {row['why']}" if refused else row["code"] or (row["why"] and f"no eps: {row['why']}")
    shown = (
        *cell, number("honest", ".1%"), number("worst", ".1%"), row["attack"] or "-", number("up", ".3g"),
        number("down", ".3g"), number("epsilon", ".3g"), number("once", ".3g"), number("shown", ".3g"),
        number("skipped", ".0%"), number("uncovered", ".0%"), row["marks"], why,
    )  # fmt: skip
    return "<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in shown) + "</tr>"

"""The table and the figure of the demo."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from fedjax_priv.analysis import learning_curves
from fedjax_priv.audit import Finding, verdict
from fedjax_priv.cli import picture_file
from fedjax_priv.cli.demo.audits import CONFIDENCE, DELTA
from fedjax_priv.cli.demo.case_table import Size
from fedjax_priv.cli.demo.common_setting import TURNED
from fedjax_priv.cli.result_tables import plain_table, show_table
from fedjax_priv.cli.terminal import Terminal
from fedjax_priv.runs.records import atomic_file
from fedjax_priv.status import describe


class Row(NamedTuple):
    """One system in the table of the demo."""

    system: str
    accuracy: float  # on the test set, after the last round
    attacked: float  # the same where some clients are Byzantine
    up_bytes: float  # by user and round, mean
    down_bytes: float
    channel_uses: float  # analog, of all users together, a round
    claimed: float | None  # eps of all rounds against the server, the paper's; None: none
    proved: float | None
    at_least: float  # eps, a lower bound by audit
    limit: float  # the largest bound that the audit's trials could have shown
    verdict: str  # of the audit, on both figures
    difference: float | None  # largest |secure sum - plain sum|, in grid points; None: no secure sum
    failed_rounds: int  # of the honest run
    status: str  # "ok", or why rounds failed


def row(name: str, honest: xr.Dataset, attacked: xr.Dataset, found: Finding, difference: float | None) -> Row:
    """What two runs of a system, its audit and its twin came to."""
    failed = honest.status.values[honest.status.values > 0]
    return Row(
        system=name,
        accuracy=float(honest.accuracy[-1]),
        attacked=float(attacked.accuracy[-1]),
        up_bytes=float(honest.up_bytes.sum("phase").mean()),
        down_bytes=float(honest.down_bytes.sum("phase").mean()),
        channel_uses=float(honest.attrs["num_params"]) if "amplitude" in honest else 0.0,
        claimed=found.claimed,
        proved=found.proved,
        at_least=found.at_least,
        limit=found.limit,
        verdict=verdict(found),
        difference=difference,
        failed_rounds=len(failed),
        status=f"{len(failed)} failed: {describe(int(np.bitwise_or.reduce(failed)))}" if len(failed) else "ok",
    )


def show(rows: Sequence[Row], rounds: int, size: Size) -> None:
    """Print the table and what its columns mean."""
    table = plain_table(
        f"{size.clients} clients, {rounds} rounds, digits", "system", "accuracy", "attacked", "up, B", "down, B",
        "eps claimed", "proved", "audited", "verdict", "difference", "status", left=("system", "verdict", "status"),
    )  # fmt: skip
    for each in rows:
        sent = f"{each.channel_uses:,.0f} uses" if each.channel_uses else f"{each.up_bytes:,.0f}"
        table.add_row(
            each.system, f"{each.accuracy:.1%}", f"{each.attacked:.1%}", sent, f"{each.down_bytes:,.0f}",
            _number(each.claimed), _number(each.proved), f">= {each.at_least:.2g}", _short(each),
            _number(each.difference), each.status,
        )  # fmt: skip
    show_table(table, _meaning(size, max(each.limit for each in rows)))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _short(each: Row) -> str:
    """The verdict without the numbers of runs it would take, which are in the file."""
    guaranteed = not (each.claimed is None and each.proved is None)
    return "; ".join(part.partition(":")[0] for part in each.verdict.split("; ")) if guaranteed else "-"


def _meaning(size: Size, limit: float) -> str:
    return (
        f"attacked: accuracy where {size.byzantine} clients send {TURNED:g} times what they learned.\n"
        "up, down: bytes by user and round, all phases; uses: of the radio channel, by all users at once.\n"
        f"eps claimed: of all rounds by the paper's theorem, against the server, at delta = {DELTA:g} (wireless: at\n"
        "the theorem's own, larger one); proved: what can be proved of the same run; -: no guarantee. audited: eps is\n"
        f"at least this, with {CONFIDENCE:.0%} confidence, by {size.watched} rounds of {size.trials} runs on each of\n"
        f"two adjacent inputs, which can show {limit:.2g} at most; verdict: whether that contradicts a figure.\n"
        "difference: the largest between the secure sum and the plain sum of the same quantized updates, in grid\n"
        f"points, in {size.compared} rounds."
    )


def write(out: pathlib.Path, rows: Sequence[Row], results: Mapping[str, xr.Dataset]) -> None:
    """`demo.png` and `demo.json`."""
    picture_file.write(learning_curves(results), out / "demo.png")
    atomic_file.write(out / "demo.json", atomic_file.to_json([each._asdict() for each in rows]))
    Terminal(soft_wrap=True).print(f"figure: {out / 'demo.png'}, table: {out / 'demo.json'}")

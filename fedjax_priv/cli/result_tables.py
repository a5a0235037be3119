"""Results of runs and sweeps, as rows and as printed tables; change here what a table shows."""

import itertools
import math
import pathlib
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from rich import box
from rich.table import Table

from fedjax_priv.cli.terminal import Terminal
from fedjax_priv.runs.records.run_list import RunSummary
from fedjax_priv.status import describe


class Row(NamedTuple):
    """A run: the last value of each metric, and bytes by user and round, all phases."""

    system: str
    point: dict[str, Any]  # of a sweep: values by axis
    rounds: int
    failed_rounds: int
    failed_because: str  # in the words of `status`; "" if none failed
    metrics: dict[str, float]
    up_bytes: float
    down_bytes: float
    seconds_per_round: float
    folder: str
    caveats: list[str]  # limits of what the run shows
    epsilon: dict[str, float]  # proved eps of all rounds by adversary, of those that have one
    delta: float | None  # at which


def run_rows(system: str, result: xr.Dataset, folder: str | pathlib.Path, axes: Sequence[str] = ()) -> list[Row]:
    """The runs of a dataset, as `simulate` returns it, or `sweep` with these axes, and where it is kept.

    Points of a sweep that were not run are left out.
    """
    rows = []
    for at in itertools.product(*(range(result.sizes[axis]) for axis in axes)):
        one = result.isel(dict(zip(axes, at, strict=True)))
        failed = one.attrs["failed_rounds"] if not axes else one.failed_rounds.item()
        if not math.isnan(failed):
            point = {axis: one[axis].item() for axis in axes}
            rows.append(_row(system, point, int(failed), one, str(folder)))
    return rows


def show_runs(title: str, rows: Sequence[Row]) -> None:
    """Print a table; runs that differ in nothing but the seed are one line, with the interval of their mean."""
    alike: dict[tuple, list[Row]] = {}
    for row in rows:
        alike.setdefault(tuple((axis, value) for axis, value in row.point.items() if axis != "seed"), []).append(row)
    axes = [axis for axis in rows[0].point if axis != "seed"]
    eps = _adversary(rows) if rows[0].point else ""
    budget = ["eps"] if eps else []
    table = plain_table(title, *axes, *rows[0].metrics, *budget, "up, B", "down, B", "s/round", "failed")
    for point, runs in alike.items():
        table.add_row(
            *(str(value) for _, value in point),
            *(_spread([run.metrics[name] for run in runs]) for name in rows[0].metrics),
            *(_largest([run.epsilon.get(eps) for run in runs]) for _ in budget),
            f"{np.mean([run.up_bytes for run in runs]):,.0f}", f"{np.mean([run.down_bytes for run in runs]):,.0f}",
            f"{np.mean([run.seconds_per_round for run in runs]):.3g}", str(sum(run.failed_rounds for run in runs)),
        )  # fmt: skip
    reasons = dict.fromkeys(row.failed_because for row in rows if row.failed_rounds)
    over = ["±: half of Student's 95% interval for the mean over seeds."] if len(alike) < len(rows) else []
    show_table(
        table, *over, f"up, down: bytes by user and round, all phases. folder: {rows[0].folder}",
        *(f"failed: {reason}" for reason in reasons), *_in_words(rows, eps), *rows[0].caveats,
    )  # fmt: skip


def _in_words(rows: Sequence[Row], of_points: str) -> list[str]:
    """What eps is of; of a sweep, of the adversary whose eps is a column."""
    row = rows[0]
    if of_points:
        delta = next(row.delta for row in rows if row.delta is not None)
        others = dict.fromkeys(name for row in rows if of_points not in row.epsilon for name in row.epsilon)
        elsewhere = f" Points with - may have it under other names: {'; '.join(others)}." if others else ""
        return [f"eps: proved at delta {delta:g}, {of_points}; the result has it by round and adversary.{elsewhere}"]
    if not row.epsilon:
        return []
    spent = "; ".join(f"{name} {eps:.4g}" for name, eps in row.epsilon.items())
    why = shlex.join(["fedjax-priv", "ledger", row.folder])
    return [f"proved eps at delta {row.delta:g}: {spent}. why, and whom nothing protects: {why}"]


def _adversary(rows: Sequence[Row]) -> str:
    """Whose eps is a column: of the first who has one at all points with an eps, or else at any; "" if nobody has."""
    proved = [row.epsilon for row in rows if row.epsilon]
    known = list(dict.fromkeys(name for epsilon in proved for name in epsilon))
    return next((name for name in known if all(name in epsilon for epsilon in proved)), known[0] if known else "")


def _largest(eps: Sequence[float | None]) -> str:
    """Of runs that are one line; what one of them lacks is not said of all."""
    known = [each for each in eps if each is not None]
    return f"{max(known):.4g}" if len(known) == len(eps) else "-"


def all_failed(rows: Sequence[Row]) -> str:
    """In one line, why runs have no round that did not fail; "" if there is no such run."""
    found = [row for row in rows if row.rounds and row.failed_rounds == row.rounds]
    if not found:
        return ""
    runs = "" if len(rows) == 1 else f" of {len(found)} of {len(rows)} runs"
    return f"every round{runs} failed: {' / '.join(dict.fromkeys(row.failed_because for row in found))}"


def show_summaries(root: pathlib.Path, found: Iterable[RunSummary]) -> None:
    """Print a table of the runs below a folder."""
    table = plain_table(f"runs in {root}", "folder", "system", "status", "rounds", "date, UTC", "metrics")
    for run in found:
        done = "?" if run.rounds_done is None else run.rounds_done
        rounds = f"{done}/{run.rounds}" + (f" of {run.runs} runs" if run.runs > 1 else "")
        table.add_row(
            str(run.folder.relative_to(root)), run.system, run.status, rounds,
            run.date[:16].replace("T", " "), ", ".join(f"{name} {last:.4g}" for name, last in run.metrics.items()),
        )  # fmt: skip
    show_table(table)


def _row(system: str, point: Mapping[str, Any], failed: int, run: xr.Dataset, folder: str) -> Row:
    metrics = [name for name in run.data_vars if run[name].dims == ("evaluation",) and name != "seconds"]
    return Row(
        system=system,
        point=dict(point),
        rounds=run.sizes["round"],
        failed_rounds=failed,
        failed_because=_because(run.status.values) if failed else "",
        metrics={str(name): float(run[name][-1]) for name in metrics},
        up_bytes=_by_user(run.up_bytes),
        down_bytes=_by_user(run.down_bytes),
        seconds_per_round=float(run.seconds[-1]) / max(run.sizes["round"], 1),
        folder=folder,
        caveats=[run.attrs["caveats"]] if run.attrs.get("caveats") else [],
        **_spent(run),
    )


def _spent(run: xr.Dataset) -> dict[str, Any]:
    if "epsilon" not in run:
        return {"epsilon": {}, "delta": None}
    last = run.epsilon.isel(round=-1).dropna("adversary")
    names = map(str, last.adversary.values)
    return {"epsilon": dict(zip(names, last.values.tolist(), strict=True)), "delta": float(run.epsilon.attrs["delta"])}


def _because(status: np.ndarray) -> str:
    """Bits of all rounds in words; rounds that only other points of a sweep have are NaN."""
    return describe(int(np.bitwise_or.reduce(np.nan_to_num(status).astype(int))))


def _by_user(sent: xr.DataArray) -> float:
    """Mean over rounds and clients; those that only other points of a sweep have are NaN, and no part of it."""
    total = sent.sum("phase", min_count=1)
    return float(total.mean()) if total.size else 0.0


def _spread(values: Sequence[float]) -> str:
    from fedjax_priv.analysis import half_width  # imports SciPy's statistics

    with np.errstate(invalid="ignore"):  # a loss may be infinite
        mean = f"{np.mean(values):.4g}"
        return f"{mean} ± {float(half_width(values)):.2g}" if len(values) > 1 else mean


def plain_table(title: str, *headings: str, left: Collection[str] | None = None) -> Table:
    """A table without rows; all columns are aligned to the left, or those in `left` and the others to the right."""
    table = Table(title=title, box=box.SIMPLE, pad_edge=False, collapse_padding=True)
    for heading in headings:
        table.add_column(heading, justify="left" if left is None or heading in left else "right")
    return table


def show_table(table: Table, *lines: str) -> None:
    """Print it as wide as it needs to be, and lines below it: a name that is cut cannot be used."""
    console = Terminal(width=max(Terminal(width=1000).measure(table).maximum, 80), soft_wrap=True)
    for part in (table, *lines):
        console.print(part)

"""The runs below a folder, and how far each has come."""

import math
import os
import pathlib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from fedjax_priv.runs.records import log_file
from fedjax_priv.runs.records.run_folder import CHECKPOINT, MANIFEST, CardError, is_saved, read_manifest

_BROKEN = (ValueError, KeyError, TypeError, AttributeError, OSError)
"""Errors that are raised when files are not as a run writes them."""


class RunSummary(NamedTuple):
    """What the folder of a run tells about the run."""

    folder: pathlib.Path
    system: str
    status: Literal["finished", "unfinished", "broken"]
    rounds_done: int | None  # in a sweep, the sum over its runs; None: unknown, since the log is broken
    rounds: int  # that were asked for; in a sweep, the sum over its runs
    date: str
    metrics: dict[str, float]  # the last ones; empty for a sweep, or if the log is broken
    runs: int = 1


def summaries(root: pathlib.Path) -> list[RunSummary]:
    """Every run in `root` and in the folders below it, oldest first; a run that cannot be read is "broken".

    Links to folders are followed. A run is listed once, under its real path if this is below `root`. Folders of cards
    of `reproduce` are left out.

    Raises:
      ValueError: `root` is not a folder.
    """
    if not root.is_dir():
        raise ValueError(f"root must be a folder, got {root}")
    found = [run for folder in _folders_with_manifest(root) if (run := _summary(folder))]
    return sorted(found, key=lambda run: (run.date, run.folder))


def _folders_with_manifest(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Each folder with a manifest, once. Links come last, so that a folder below `root` is listed by its path there."""
    seen, links = set(), [str(root)]
    for link in links:
        for folder, inside, files in os.walk(link):
            if (real := os.path.realpath(folder)) in seen:
                inside.clear()
                continue
            seen.add(real)
            inside[:] = sorted(name for name in inside if name != CHECKPOINT)
            links += filter(os.path.islink, (os.path.join(folder, name) for name in inside))
            if MANIFEST in files:
                yield pathlib.Path(folder)


def _summary(folder: pathlib.Path) -> RunSummary | None:
    """The summary of a run; None for a card."""
    try:
        manifest, finished = read_manifest(folder), is_saved(folder)
        runs = int(manifest.get("runs", 1))
        rounds_done, metrics = _of_log(folder, runs, needed=not finished)
        return RunSummary(
            folder=folder,
            system=str(manifest.get("system", "-")),
            status="finished" if finished else "unfinished",
            rounds_done=rounds_done,
            rounds=int(manifest["rounds"]) * runs,
            date=str(manifest["date"]),
            metrics=metrics,
            runs=runs,
        )
    except CardError:
        return None
    except _BROKEN:
        return RunSummary(folder, "-", "broken", 0, 0, "", {})


def _of_log(folder: pathlib.Path, runs: int, *, needed: bool) -> tuple[int | None, dict[str, float]]:
    """Rounds done and the last metrics. A broken log is an error only if `needed`: if the run has no result."""
    try:
        log = log_file.read(folder)
        last = log[-1] if log and runs == 1 else {}
        metrics = {name: math.nan if value is None else value for name, value in last.get("metrics", {}).items()}
        return _rounds_done(log), metrics
    except _BROKEN:
        if needed:
            raise
        return None, {}


def _rounds_done(log: list[dict[str, Any]]) -> int:
    """Rounds done according to the log; in a sweep, each run of a wave has a line per chunk."""
    waves: dict[int, list[int]] = {}
    for line in log:
        waves.setdefault(line.get("wave", 0), []).append(line["round"])
    return sum(max(rounds) * rounds.count(max(rounds)) for rounds in waves.values())

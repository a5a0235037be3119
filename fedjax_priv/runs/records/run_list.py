"""The runs below a folder, and how far each has come."""

import math
import os
import pathlib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from fedjax_priv.runs.records import log_file
from fedjax_priv.runs.records.run_folder import CHECKPOINT, MANIFEST, CardError, is_saved, read_manifest

_BROKEN = (ValueError, KeyError, TypeError, AttributeError, OSError)
"""What reading files raises that are not as a run writes them."""


class RunSummary(NamedTuple):
    """What the folder of a run says."""

    folder: pathlib.Path
    system: str
    status: Literal["finished", "unfinished", "broken"]
    rounds_done: int | None  # of a sweep, those of all its runs together; None: not known, since the log is broken
    rounds: int  # asked for
    date: str
    metrics: dict[str, float]  # the last ones; none of a sweep, nor where the log is broken
    runs: int = 1


def summaries(root: pathlib.Path) -> list[RunSummary]:
    """Every run in `root` and in the folders below it, oldest first; one that cannot be read is "broken".

    Links to folders are followed; a run is listed once, under its own name if that is below `root`. Folders of cards of
    `reproduce` are no runs, and are left out.

    Raises:
      ValueError: `root` is no folder.
    """
    if not root.is_dir():
        raise ValueError(f"root must be a folder, got {root}")
    found = [run for folder in _folders_with_manifest(root) if (run := _summary(folder))]
    return sorted(found, key=lambda run: (run.date, run.folder))


def _folders_with_manifest(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Each folder once; links come last, so that what is below `root` itself has the name that it has there."""
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
    """What is known of a run; None for a card."""
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
    """Rounds done and the last metrics; a run that has a result does not need its log."""
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
    """Rounds done by the log; in a sweep, each run of a wave has a line per chunk."""
    waves: dict[int, list[int]] = {}
    for line in log:
        waves.setdefault(line.get("wave", 0), []).append(line["round"])
    return sum(max(rounds) * rounds.count(max(rounds)) for rounds in waves.values())

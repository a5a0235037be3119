"""The runs below a folder, and how far each has come."""

import math
import os
import pathlib
from typing import Any, Literal, NamedTuple

from fedjax_priv.runs.records import log_file
from fedjax_priv.runs.records.run_folder import CHECKPOINT, MANIFEST, CardError, is_saved, read_manifest


class RunSummary(NamedTuple):
    """What the folder of a run says."""

    folder: pathlib.Path
    system: str
    status: Literal["finished", "unfinished", "broken"]
    rounds_done: int  # of a sweep, those of all its runs together
    rounds: int  # asked for
    date: str
    metrics: dict[str, float]  # the last ones; of a sweep, none
    runs: int = 1


def summaries(root: pathlib.Path) -> list[RunSummary]:
    """Every run in `root` and in the folders below it, oldest first; one that cannot be read is "broken".

    Folders of cards of `reproduce` are no runs, and are left out.

    Raises:
      ValueError: `root` is no folder.
    """
    if not root.is_dir():
        raise ValueError(f"root must be a folder, got {root}")
    found = []
    for folder, inside, files in os.walk(root):
        inside[:] = [name for name in inside if name != CHECKPOINT]
        if MANIFEST in files and (run := _summary(pathlib.Path(folder))):
            found.append(run)
    return sorted(found, key=lambda run: (run.date, run.folder))


def _summary(folder: pathlib.Path) -> RunSummary | None:
    """What is known of a run; None for a card."""
    try:
        manifest, log = read_manifest(folder), log_file.read(folder)
        runs = int(manifest.get("runs", 1))
        last = log[-1] if log and runs == 1 else {}
        return RunSummary(
            folder=folder,
            system=str(manifest.get("system", "-")),
            status="finished" if is_saved(folder) else "unfinished",
            rounds_done=_rounds_done(log),
            rounds=int(manifest["rounds"]) * runs,
            date=str(manifest["date"]),
            metrics={name: math.nan if value is None else value for name, value in last.get("metrics", {}).items()},
            runs=runs,
        )
    except CardError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return RunSummary(folder, "-", "broken", 0, 0, "", {})


def _rounds_done(log: list[dict[str, Any]]) -> int:
    """Rounds done by the log; in a sweep, each run of a wave has a line per chunk."""
    waves: dict[int, list[int]] = {}
    for line in log:
        waves.setdefault(line.get("wave", 0), []).append(line["round"])
    return sum(max(rounds) * rounds.count(max(rounds)) for rounds in waves.values())

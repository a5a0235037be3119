"""Run paper cards: each script in a process of its own, some at a time, and what came out of it checked."""

import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import NamedTuple

from experiments.cards import HERE, Card, chosen, folder_of, result
from experiments.checks import problems
from fedjax_priv import _validate
from fedjax_priv.runs.records.manifest import commit

_FAILED = "failed"


class Row(NamedTuple):
    """What a card came to."""

    paper: str
    figure: str
    title: str
    scale: str
    verdict: str  # "failed" without results
    held: int  # claims that hold, of those tested
    tested: int
    seconds: float | None  # of the experiment; importing and starting JAX come on top
    folder: str
    problems: list[str]  # none, unless the script or its results are at fault


def reproduce(
    paper: str | None, figure: str | None, scale: str, out: pathlib.Path, processes: int, resume: bool
) -> list[Row]:
    """Make figures and print a line for each as it is done; one that fails does not stop the others.

    Args:
      paper: folder of its scripts; all papers if None.
      figure: script; all of the paper if None.
      scale: one of `cards.SCALES`.
      out: folder for the results, `PAPER/FIGURE-SCALE` in it.
      processes: scripts at a time.
      resume: leave out those whose results are there, of the same commit.

    Raises:
      ValueError: an argument is out of its range.
    """
    _validate.integer(processes=processes)
    cards = chosen(paper, figure)
    rows = []
    try:
        for row in _rows(cards, scale, out, processes, resume):
            rows.append(row)
            _show(row)
    except KeyboardInterrupt:
        print("go on with: the same command and --resume", file=sys.stderr)
        raise
    bad = [f"{row.paper} {row.figure}" for row in rows if row.problems]
    print(f"{len(rows) - len(bad)} of {len(rows)} cards made; results: {out}")
    if bad:
        print(f"not as they should be: {', '.join(bad)}")
    return rows


def _rows(cards: Sequence[Card], scale: str, out: pathlib.Path, processes: int, resume: bool) -> Iterator[Row]:
    done = {card for card in cards if resume and _is_made(card, scale, out)}
    for card in done:
        yield _row(card, scale, out, [])
    left = [card for card in cards if card not in done]
    with tempfile.TemporaryDirectory(prefix="programs-") as programs:
        runner = _Runner(scale, out, _environment(scale, programs), captured=len(cards) > 1)
        yield from runner.run(left, processes)


def _is_made(card: Card, scale: str, out: pathlib.Path) -> bool:
    current = commit()
    if current.endswith("-dirty"):  # which changes, nobody knows
        return False
    try:
        made = result(card, scale, out)
    except (OSError, ValueError):
        return False
    return made is not None and made.manifest["commit"] == current and not problems(made)


def _environment(scale: str, programs: str) -> dict[str, str]:
    """What one script has compiled another one loads; at scale `quick` nearly all programs run once."""
    ours = {
        "JAX_COMPILATION_CACHE_DIR": programs,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # several scripts may share a GPU
    }
    if scale == "quick":
        ours["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    path = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return ours | os.environ | {"PYTHONPATH": path}


class _Runner:
    """Scripts in processes, which end when this one is interrupted."""

    def __init__(self, scale: str, out: pathlib.Path, environment: Mapping[str, str], captured: bool):
        self._scale, self._out, self._environment, self._captured = scale, out, environment, captured
        self._running: set[subprocess.Popen] = set()

    def run(self, cards: Sequence[Card], processes: int) -> Iterator[Row]:
        """Rows in the order in which scripts end."""
        with ThreadPoolExecutor(processes) as pool:
            futures: list[Future[Row]] = [pool.submit(self._one, card) for card in cards]
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in tuple(self._running):
                    process.terminate()
                raise

    def _one(self, card: Card) -> Row:
        folder = folder_of(card, self._scale, self._out)
        (folder / "verdicts.json").unlink(missing_ok=True)  # of an earlier run: written last, it means success
        place = os.path.relpath(folder)  # results name no place on this machine
        script = ["-m", f"experiments.{card.paper}.{card.name}", "--scale", self._scale, "--out", place]
        process = subprocess.Popen(
            [sys.executable, "-P", *script], env=self._environment, text=True, errors="replace",
            stdout=subprocess.PIPE if self._captured else None, stderr=subprocess.STDOUT if self._captured else None,
        )  # fmt: skip
        self._running.add(process)
        said, _ = process.communicate()
        self._running.discard(process)
        last = [line for line in (said or "").splitlines() if line.strip()][-1:]
        errors = [": ".join([f"exit status {process.returncode}", *last])] if process.returncode else []
        return _row(card, self._scale, self._out, errors)


def _row(card: Card, scale: str, out: pathlib.Path, errors: Sequence[str]) -> Row:
    folder = str(folder_of(card, scale, out))
    try:
        made = result(card, scale, out)
    except (OSError, ValueError) as error:
        made, errors = None, [*errors, str(error)]
    if made is None or errors:
        return Row(*card, scale, _FAILED, 0, 0, None, folder, [*errors] or ["no results"])
    seconds = made.manifest["seconds"]
    return Row(*card, scale, made.verdict, *made.counts, seconds, folder, problems(made))


def _show(row: Row) -> None:
    seconds = "-" if row.seconds is None else f"{row.seconds:.0f} s"
    held = f"{row.held}/{row.tested}"
    print(f"{row.verdict:<24} {held:>5} {seconds:>7}  {row.paper} {row.figure}: {row.title}", flush=True)
    for problem in row.problems:
        print(f"    {problem}", flush=True)

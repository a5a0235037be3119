"""Make paper cards: run each experiment in a separate process, several at a time, and check its results."""

import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import NamedTuple

from experiments.cards import HERE, Card, chosen, experiment_of, folder_of, result
from experiments.checks import problems
from experiments.compiling import FAST_FLAGS
from experiments.pictures import VECTORS
from experiments.stopping import terminable
from fedjax_priv import _validate
from fedjax_priv.runs.records.manifest import commit

_FAILED = "failed"


class Row(NamedTuple):
    """The outcome of a card."""

    paper: str
    figure: str
    title: str
    scale: str
    verdict: str  # "failed" without results
    held: int  # tested claims that hold
    tested: int
    seconds: float | None  # of the experiment, without importing and starting JAX
    folder: str
    problems: list[str]  # empty if nothing is wrong


def reproduce(
    paper: str | None,
    figure: str | None,
    scale: str,
    out: pathlib.Path,
    processes: int,
    resume: bool,
    vectors: bool = False,
) -> list[Row]:
    """Make figures and print a line for each when it is finished; one that fails does not stop the others.

    Args:
      paper: a key of `cards.PAPERS`; None: all papers.
      figure: a key of the paper's table `FIGURES`; None: all of them.
      scale: one of `cards.SCALES`.
      out: folder for the results, which go to `PAPER/FIGURE-SCALE` in it.
      processes: experiments that run at the same time.
      resume: skip those with results of the same commit, which must be known and without changes; where only the
        vectors are missing, draw the data again, or make the figure again if it cannot be drawn from its data alone.
      vectors: write pictures as PDF and SVG too.

    Raises:
      ValueError: an argument is out of its range.
      KeyboardInterrupt, SystemExit: Ctrl-C or SIGTERM arrived; no experiment goes on.
    """
    _validate.integer(processes=processes)
    cards = chosen(paper, figure, scale)
    rows = []
    try:
        with terminable():
            for row in _rows(cards, scale, out, processes, resume, vectors):
                rows.append(row)
                _show(row)
    except (KeyboardInterrupt, SystemExit):
        print("to continue, add --resume to the same command", file=sys.stderr)
        raise
    bad = [f"{row.paper} {row.figure}" for row in rows if row.problems]
    print(f"{len(rows) - len(bad)} of {len(rows)} cards made; results: {out}")
    if bad:
        print(f"failed or unexpected: {', '.join(bad)}")
    return rows


def _rows(
    cards: Sequence[Card], scale: str, out: pathlib.Path, processes: int, resume: bool, vectors: bool = False
) -> Iterator[Row]:
    made = {card for card in cards if resume and _is_made(card, scale, out)}
    done = {card for card in made if not vectors or _has_vectors(card, scale, out)}
    for card in done:
        yield _row(card, scale, out, [])
    left = [card for card in cards if card not in done]
    with tempfile.TemporaryDirectory(prefix="programs-") as programs:
        drawn = {card for card in made - done if experiment_of(card).judge is not None}
        runner = _Runner(scale, out, environment(scale, programs), len(cards) > 1, vectors, drawn)
        yield from runner.run(left, processes)


def _is_made(card: Card, scale: str, out: pathlib.Path) -> bool:
    current = commit()
    if current.endswith("-dirty") or current == "unknown":  # with changes that nobody knows, or outside a checkout
        return False
    try:
        made = result(card, scale, out)
    except (OSError, ValueError):
        return False
    return made is not None and made.manifest.get("commit") == current and not problems(made)


def _has_vectors(card: Card, scale: str, out: pathlib.Path) -> bool:
    """Whether a card that is made has vectors of its picture, and not of an older one."""
    folder = folder_of(card, scale, out)
    picture, *vectors = (folder / f"{card.name}.{form}" for form in ("png", *VECTORS))
    return all(path.exists() and path.stat().st_mtime >= picture.stat().st_mtime for path in vectors)


def environment(scale: str, programs: str) -> dict[str, str]:
    """Share compiled programs; at scale `quick` do not optimize them, since nearly all run only once.

    What the user has set stays.
    """
    ours = {
        "JAX_COMPILATION_CACHE_DIR": programs,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # several experiments may share a GPU
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # of Linux: memory in large pages
    }
    if scale == "quick":
        ours |= {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "XLA_FLAGS": FAST_FLAGS}
    path = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return ours | os.environ | {"PYTHONPATH": path}


class _Runner:
    """Runs experiments in processes, which end when this one is interrupted."""

    def __init__(
        self, scale: str, out: pathlib.Path, environment: Mapping[str, str], captured: bool, vectors: bool,
        drawn: Set[Card],
    ):  # fmt: skip
        """`drawn`: cards of which the data are there and only drawn again."""
        self._scale, self._out, self.environment, self._captured = scale, out, environment, captured
        self._drawn = drawn
        self._more = ["--vectors"] if vectors else []
        self._running: set[subprocess.Popen] = set()
        self._stopped = False

    def run(self, cards: Sequence[Card], processes: int) -> Iterator[Row]:
        """Rows in the order in which experiments end."""
        with ThreadPoolExecutor(processes) as pool:
            futures: list[Future[Row]] = [pool.submit(self._one, card) for card in cards]
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BaseException:
                self._stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                for process in tuple(self._running):
                    process.terminate()
                raise

    def _one(self, card: Card) -> Row:
        folder = folder_of(card, self._scale, self._out)
        more = [*self._more, "--judge"] if card in self._drawn else self._more
        if card not in self._drawn:  # from an earlier run: it is written last and means success
            (folder / "verdicts.json").unlink(missing_ok=True)
        place = os.path.relpath(folder)  # results must not name folders of this machine
        arguments = ["-m", "experiments", card.paper, card.name, "--scale", self._scale, *more, "--out", place]
        process = subprocess.Popen(
            [sys.executable, "-P", *arguments], env=self.environment, text=True, errors="replace",
            stdout=subprocess.PIPE if self._captured else None, stderr=subprocess.STDOUT if self._captured else None,
        )  # fmt: skip
        self._running.add(process)
        if self._stopped:  # while this thread started it
            process.terminate()
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
        return Row(card.paper, card.name, card.heading, scale, _FAILED, 0, 0, None, folder, [*errors] or ["no results"])
    seconds = made.manifest.get("seconds")
    return Row(card.paper, card.name, card.heading, scale, made.verdict, *made.counts, seconds, folder, problems(made))


def _show(row: Row) -> None:
    seconds = "-" if row.seconds is None else f"{row.seconds:.0f} s"
    held = f"{row.held}/{row.tested}"
    print(f"{row.verdict:<24} {held:>5} {seconds:>7}  {row.paper} {row.figure}: {row.title}", flush=True)
    for problem in row.problems:
        print(f"    {problem}", flush=True)

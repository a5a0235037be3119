"""What a run writes down while it is under way, so that it can be resumed: the one owner of its folder."""

import contextlib
import itertools
import json
import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
import xarray as xr

from fedjax_priv import _validate
from fedjax_priv.engine import processes
from fedjax_priv.runs.records import atomic_file, checkpoint, run_folder
from fedjax_priv.runs.records.checkpoint import Position
from fedjax_priv.runs.records.keep import Keep
from fedjax_priv.runs.records.manifest import manifest, plain
from fedjax_priv.runs.records.result_dataset import Chunk

try:
    import fcntl
except ImportError:  # on Windows two processes in one folder go unnoticed
    fcntl = None

FACTS = "facts.json"
VOLATILE = {"commit", "date", "numpy_version", "python_version", "processes"}
"""Entries of a manifest that may differ where a run is resumed; what would change the run is a fact as well."""


class Journal:
    """The folder of a run that is under way. The methods are called at the same places by all processes of a run."""

    def __init__(self, keep: Keep, asked: Mapping[str, Any], every: int):
        """Make the folder, or find the run in it.

        Raises:
          ValueError: `keep.every` is not a multiple of `every`; the folder holds another run, the difference is named.
          FileExistsError: something is in the folder, and it is not to be resumed.
          OSError: the folder cannot be written, or another process runs in it.
        """
        self.folder = pathlib.Path(keep.folder)
        self.every = every if keep.every is None else keep.every
        _validate.integer(**{"keep.every": self.every})
        _validate.divides({"every": every}, **{"keep.every": self.every})
        self._lock: IO[bytes] | None = None
        self._new = False
        try:
            self.facts, self._position = processes.on_first(lambda: self._open(keep.resume, asked))
        except BaseException:
            self.close()
            raise

    def _open(self, resume: bool, asked: Mapping[str, Any]) -> tuple[dict[str, Any], Position]:
        if resume and (self.folder / run_folder.MANIFEST).exists():
            self._compare(self._without_volatile(run_folder.read_manifest(self.folder)), self._without_volatile(asked))
        else:
            run_folder.create(self.folder, asked)
            self._new = True
        inside, facts = self.folder / run_folder.CHECKPOINT, self._read_facts()
        if (self.folder / run_folder.RESULT).exists():
            return facts, Position()
        inside.mkdir(exist_ok=True)
        self._lock = _only_owner(inside / "lock")
        if (self.folder / run_folder.RESULT).exists():  # another process has just finished the run
            shutil.rmtree(inside)
            return self._read_facts(), Position()
        _clear_parts(self.folder, inside)
        position = checkpoint.read(inside)
        done = [sum(len(checkpoint.read_chunks(inside / name)) for name in names) for names in position.parts]
        self._forget_later_records(done)
        return facts, position

    def _read_facts(self) -> dict[str, Any]:
        path = self.folder / FACTS
        try:
            return json.loads(path.read_bytes()) if path.exists() else {}
        except ValueError as error:
            raise ValueError(f"{path} is broken: {error}") from error

    def fact(self, name: str, value: Any) -> Any:
        """Write down what a run depends on, once; a number chosen by measuring is then the first one for ever.

        Raises:
          ValueError: a digest, which is a string, was another one when the run began.
        """
        if name in self.facts:
            if isinstance(value, str):
                self._compare({name: self.facts[name]}, {name: value})
            return self.facts[name]
        self.facts[name] = value
        content = json.dumps(self.facts, indent=2).encode()
        processes.on_first(lambda: atomic_file.write(self.folder / FACTS, content))
        return value

    def finished(self, batch: int) -> list[Chunk]:
        """Chunks of a batch that count; of a finished run they are gone."""
        if batch >= len(self._position.parts):
            return []
        names, inside = self._position.parts[batch], self.folder / run_folder.CHECKPOINT
        return processes.on_first(lambda: [c for name in names for c in checkpoint.read_chunks(inside / name)])

    def state(self, batch: int) -> tuple[np.ndarray, ...] | None:
        """State of a batch at its last checkpoint."""
        return self._position.state if batch == self._position.batch and self._position.state else None

    def commit(self, batch: int, chunks: Sequence[Chunk], state: Sequence[np.ndarray]) -> None:
        """Make chunks count, with the state after them.

        Raises:
          OSError: the folder is read-only, or the disk is full; the last checkpoint counts.
        """
        before = self._position
        parts = before.parts if batch < len(before.parts) else (*before.parts, ())
        name = f"chunks-{batch:05d}-{chunks[-1].rounds:08d}.npz"
        position = Position(batch, (*parts[:batch], (*parts[batch], name)), tuple(state))
        processes.on_first(lambda: self._commit(name, chunks, position))
        self._position = position._replace(state=())  # on a CPU it is the memory of a state that is about to be donated

    def _commit(self, name: str, chunks: Sequence[Chunk], position: Position) -> None:
        inside = self.folder / run_folder.CHECKPOINT
        with run_folder.explained("write a checkpoint", inside):
            checkpoint.write_chunks(inside / name, chunks)
            checkpoint.write(inside, position)

    def log(self, record: Mapping[str, Any]) -> None:
        """Add a record to the log."""
        processes.on_first(lambda: run_folder.append_log(self.folder, record))

    def is_finished(self) -> bool:
        """Whether the folder holds the result of the run."""
        return processes.on_first(lambda: (self.folder / run_folder.RESULT).exists())

    def result(self) -> xr.Dataset:
        """The result of a run that is finished."""
        return processes.on_first(lambda: run_folder.load(self.folder))

    def finish(self, dataset: xr.Dataset) -> None:
        """Write the result; the checkpoints are not needed any more."""
        processes.on_first(lambda: run_folder.save(self.folder, dataset))
        self.close()
        processes.on_first(lambda: shutil.rmtree(self.folder / run_folder.CHECKPOINT, ignore_errors=True))

    def abandon(self) -> None:
        """Take back a folder that was made in vain: nothing has happened in it yet."""
        if self._new and not run_folder.read_log(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        """Let another process go on in the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _compare(self, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
        names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
        if names:
            pairs = [(name, *_told_apart(here.get(name), there.get(name))) for name in names]
            differ = "; ".join(f"{name} is {now}, was {before}" for name, now, before in pairs)
            raise ValueError(f"folder {self.folder} holds another run and cannot be resumed: {differ}")

    def _without_volatile(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """As it is read from a file, where a number that is not finite is none."""
        read = json.loads(run_folder.to_json(asked))
        return {name: value for name, value in read.items() if name not in VOLATILE}

    def _forget_later_records(self, done: Sequence[int]) -> None:
        """The log has a record for each chunk; those of chunks that do not count come again."""
        counts = lambda record: record["batch"] < len(done) and record["chunk"] < done[record["batch"]]
        run_folder.truncate_log(self.folder, counts)


def _told_apart(here: Any, there: Any) -> tuple[str, str]:
    """Two values as text, of long ones the part where they begin to differ."""
    texts = ["not given" if value is None else str(value) for value in (here, there)]
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False))
    start = max(sum(1 for _ in same) - 20, 0)
    cut = lambda text: ("..." if start else "") + text[start : start + 60] + ("..." if text[start + 60 :] else "")
    return cut(texts[0]), cut(texts[1])


def _clear_parts(*folders: pathlib.Path) -> None:
    """What a killed process was about to write."""
    for folder in folders:
        for path in folder.glob(".*.part"):
            path.unlink()


def _only_owner(path: pathlib.Path) -> IO[bytes]:
    """A lock that ends with the process, however it ends."""
    file = path.open("wb")
    if fcntl:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise BlockingIOError(f"folder {path.parent.parent} is in use by a run that is under way") from None
    return file


@contextlib.contextmanager
def opened(keep: Keep | None, asked: Mapping[str, Any], every: int) -> Iterator[Journal | None]:
    """The journal of a run while the context lasts; None where nothing is kept."""
    if keep is None:
        yield None
        return
    journal = Journal(keep, asked, every)
    try:
        yield journal
    except Exception:
        journal.abandon()
        raise
    finally:
        journal.close()


def about(keep: Keep | None, **arguments: Any) -> dict[str, Any]:
    """The manifest of a run, with the names its caller gave it.

    Raises:
      ValueError: `keep.config` gives a name that the manifest has already.
    """
    own, config = manifest(**arguments), {} if keep is None else keep.config
    if taken := sorted(config.keys() & own.keys()):
        raise ValueError(f"keep.config must name other things than the manifest does by itself, got {taken}")
    return {name: plain(value) for name, value in config.items()} | own

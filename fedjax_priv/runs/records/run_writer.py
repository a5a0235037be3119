"""Writes everything that a run writes to its folder, and reads it when the run is resumed."""

import contextlib
import json
import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import IO, Any, NamedTuple

import numpy as np
import xarray as xr

from fedjax_priv import _validate
from fedjax_priv.engine import processes
from fedjax_priv.runs.records import atomic_file, checkpoint, facts, log_file, run_folder
from fedjax_priv.runs.records.checkpoint import Position
from fedjax_priv.runs.records.manifest import lasting
from fedjax_priv.runs.records.owner_lock import only_owner
from fedjax_priv.runs.records.result_dataset import Chunk


class Keep(NamedTuple):
    """The folder to write a run to: `manifest.json`, `log.jsonl`, checkpoints during the run, then `result.nc`.

    A folder that is not empty is refused, unless it holds the same run and `resume` is set. A run that was killed then
    continues from its last checkpoint and ends with the same bits, on an NVIDIA GPU if XLA is told so
    (`docs/reproducibility.md`); a finished run's result is read.
    """

    folder: str | pathlib.Path
    every: int | None = None  # rounds between two checkpoints, a multiple of a chunk's rounds; None: every chunk
    resume: bool = False  # continue the run in the folder, or start it if there is none
    config: Mapping[str, Any] = MappingProxyType({})  # further manifest entries, such as the "system" that `list` shows


class RunWriter:
    """Owns the folder of a run in progress. All processes of a run must call its methods in the same order."""

    def __init__(self, keep: Keep, asked: Mapping[str, Any], every: int):
        """Makes the folder, or finds the run in it.

        Raises:
          ValueError: `keep.every` is not a multiple of `every`, or the folder holds another run (the difference is
            named).
          FileExistsError: the folder is not empty, and `keep.resume` is not set.
          OSError: the folder cannot be written, or another process is writing to it.
        """
        _validate.one_of((True, False), **{"keep.resume": keep.resume})
        self.folder = pathlib.Path(keep.folder)
        self.every = every if keep.every is None else keep.every
        _validate.integer(**{"keep.every": self.every})
        _validate.divides({"every": every}, **{"keep.every": self.every})
        self._lock: IO[bytes] | None = None
        self._new = self._made = False
        try:
            self.facts, self._position = processes.on_first(lambda: self._open(keep.resume, asked))
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, BlockingIOError):  # else another process uses it
                self.remove_if_unused()
            self.close()
            raise

    def _open(self, resume: bool, asked: Mapping[str, Any]) -> tuple[dict[str, Any], Position]:
        self._made = not self.folder.exists()
        try:
            run_folder.create(self.folder, asked)
            self._new = True
        except FileExistsError:  # to be resumed, or another process made it a moment ago
            if not (resume and (self.folder / run_folder.MANIFEST).exists()):
                raise
            facts.check_same(self.folder, lasting(run_folder.read_manifest(self.folder)), lasting(asked))
        inside = self.folder / run_folder.CHECKPOINT
        if not (self.folder / run_folder.RESULT).exists():
            inside.mkdir(exist_ok=True)
            self._lock = only_owner(inside / "lock")
            if not (self.folder / run_folder.RESULT).exists():
                begun = (inside / checkpoint.STATE).exists()
                return facts.read(self.folder, begun=begun), self._last_position(inside)
        shutil.rmtree(inside, ignore_errors=True)  # left by a process that just finished the run, or was killed then
        return facts.read(self.folder, begun=True), Position()

    def _last_position(self, inside: pathlib.Path) -> Position:
        """Reads the last checkpoint, and removes log lines of later chunks, which will be computed again."""
        _remove_parts(self.folder, inside)
        position = checkpoint.read(inside)
        done = [sum(len(checkpoint.read_chunks(inside / name)) for name in names) for names in position.files]
        counts = lambda record: record["wave"] < len(done) and record["chunk"] < done[record["wave"]]
        log_file.truncate(self.folder, counts)
        return position

    def fact(self, name: str, value: Any) -> None:
        """Records something that the run depends on; a number that is recorded already is kept.

        Raises:
          ValueError: a string, which is a digest, differs from the recorded one.
        """
        if name not in self.facts:
            self.facts[name] = value
            content = json.dumps(self.facts, indent=2).encode()
            processes.on_first(lambda: atomic_file.write(self.folder / facts.FACTS, content))
        elif isinstance(value, str):
            facts.check_same(self.folder, {name: self.facts[name]}, {name: value})

    def finished_chunks(self, wave: int) -> list[Chunk]:
        """The chunks of a wave in its checkpoints; empty if the run has ended."""
        if wave >= len(self._position.files):
            return []
        names, inside = self._position.files[wave], self.folder / run_folder.CHECKPOINT
        return processes.on_first(lambda: [c for name in names for c in checkpoint.read_chunks(inside / name)])

    def saved_state(self, wave: int) -> tuple[np.ndarray, ...] | None:
        """The state of a wave at its last checkpoint; None if there is none."""
        return self._position.state if wave == self._position.wave and self._position.state else None

    def write_checkpoint(self, wave: int, chunks: Sequence[Chunk], state: Sequence[np.ndarray]) -> None:
        """Writes finished chunks and the state after them.

        Raises:
          OSError: the folder is read-only, or the disk is full; the last checkpoint remains valid.
        """
        before = self._position.files
        files = before if wave < len(before) else (*before, ())
        name = f"chunks-{wave:05d}-{chunks[-1].rounds:08d}.npz"
        position = Position(wave, (*files[:wave], (*files[wave], name)), tuple(state))
        processes.on_first(lambda: self._write(name, chunks, position))
        self._position = position._replace(state=())  # on a CPU these arrays share memory that will be donated

    def _write(self, name: str, chunks: Sequence[Chunk], position: Position) -> None:
        inside = self.folder / run_folder.CHECKPOINT
        with atomic_file.explained("write a checkpoint", inside):
            checkpoint.write_chunks(inside / name, chunks)
            checkpoint.write(inside, position)

    def append_log(self, record: Mapping[str, Any]) -> None:
        """Adds a line to the log."""
        processes.on_first(lambda: log_file.append(self.folder, record))

    def is_finished(self) -> bool:
        """Whether the folder holds the result of the run."""
        return processes.on_first(lambda: (self.folder / run_folder.RESULT).exists())

    def read_result(self) -> xr.Dataset:
        """Reads the result of a run that has ended."""
        return processes.on_first(lambda: run_folder.load(self.folder))

    def write_result(self, dataset: xr.Dataset) -> None:
        """Writes the result and removes the checkpoints."""
        processes.on_first(lambda: run_folder.save(self.folder, dataset))
        self.close()
        processes.on_first(lambda: shutil.rmtree(self.folder / run_folder.CHECKPOINT, ignore_errors=True))

    def remove_if_unused(self) -> None:
        """If nothing was logged: removes a folder that this writer made; in an older folder, removes its new files."""
        if not self._new or log_file.read(self.folder):
            return
        shutil.rmtree(self.folder if self._made else self.folder / run_folder.CHECKPOINT, ignore_errors=True)
        for name in (run_folder.MANIFEST, facts.FACTS, log_file.LOG):
            with contextlib.suppress(OSError):
                (self.folder / name).unlink()

    def close(self) -> None:
        """Lets another process use the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _remove_parts(*folders: pathlib.Path) -> None:
    """Removes unfinished files of a killed process."""
    for folder in folders:
        for path in folder.glob(".*.part"):
            path.unlink()


@contextlib.contextmanager
def opened(keep: Keep | None, asked: Mapping[str, Any], every: int) -> Iterator[RunWriter | None]:
    """The writer of a run while the context lasts; None if `keep` is None."""
    if keep is None:
        yield None
        return
    writer = RunWriter(keep, asked, every)
    try:
        yield writer
    except Exception:
        writer.remove_if_unused()
        raise
    finally:
        writer.close()

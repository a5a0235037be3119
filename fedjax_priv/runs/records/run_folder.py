"""The folder a run leaves: what was asked for, what happened chunk by chunk, and the result.

`manifest.json` is written once, before the first round; `log.jsonl` gets a line after every chunk of rounds;
`result.nc` is there when the run has ended, and `checkpoint/` as long as it can be resumed. Every file but the log is
there whole or not at all, and the log has whole lines but for the last one of a process that was killed.
"""

import contextlib
import errno
import io
import json
import math
import os
import pathlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr

from fedjax_priv.runs.records import atomic_file

MANIFEST, LOG, RESULT, CHECKPOINT = "manifest.json", "log.jsonl", "result.nc", "checkpoint"
# Level 1 without byte shuffling: a sixth of the size, and quicker to write than the plain values.
_COMPRESSED = {"zlib": True, "complevel": 1, "shuffle": False}


class Entry(NamedTuple):
    """What a folder says of its run."""

    folder: pathlib.Path
    system: str
    status: Literal["finished", "unfinished", "broken"]
    rounds_done: int  # of a sweep, those of all its runs together
    rounds: int  # asked for
    date: str
    metrics: dict[str, float]  # the last ones


def create(folder: pathlib.Path, manifest: Mapping[str, Any]) -> None:
    """Make the folder of a new run, parents too; of several processes that try at once, one succeeds.

    Args:
      folder: missing or empty. What a process left that was killed in here does not count.
      manifest: what was asked for, as JSON can hold it.

    Raises:
      FileExistsError: something is in the folder.
      OSError: the folder cannot be made or written: read-only, a file in the way, a full disk.
    """
    with explained("make the folder of a run", folder):
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{MANIFEST}.{uuid.uuid4().hex}.part"
        if any(not (path.name.startswith(".") and path.suffix == ".part") for path in folder.iterdir()):
            raise _taken(folder)
        try:
            atomic_file.write(part, to_json(manifest))
            _claim(part, folder / MANIFEST)
        except FileExistsError:
            raise _taken(folder) from None
        finally:
            part.unlink(missing_ok=True)


def read_manifest(folder: pathlib.Path) -> dict[str, Any]:
    """What `create` was given.

    Raises:
      ValueError: the folder is missing or not that of a run, or its manifest is broken.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{folder} is not the folder of a run: it has no {MANIFEST}") from None
    except ValueError as error:
        raise ValueError(f"{path} is broken: {error}") from error
    if not isinstance(manifest, dict):
        raise ValueError(f"{path} is broken: it holds no object")
    return manifest


def save(folder: pathlib.Path, dataset: xr.Dataset) -> None:
    """Write the result, in place of an older one.

    Args:
      folder: of a run.
      dataset: truth values, integers, floats and strings; attributes are numbers and strings.

    Raises:
      OSError: the folder is read-only, or the disk is full; the older result is untouched.
    """
    compressed = {
        name: _COMPRESSED
        for name, values in dataset.variables.items()
        if "client" in values.dims and values.dtype.kind in "biuf"
    }
    file = io.BytesIO()
    dataset.to_netcdf(file, engine="h5netcdf", encoding=compressed)
    with explained("write the result", folder / RESULT):
        atomic_file.write(folder / RESULT, file.getvalue())


def load(folder: pathlib.Path) -> xr.Dataset:
    """The result of a run, in memory, as it was saved bit for bit.

    Raises:
      ValueError: the folder is not that of a run, or the run has no result yet, or the file is broken.
    """
    read_manifest(folder)
    path = folder / RESULT
    if not path.is_file():
        raise ValueError(f"{folder} has no {RESULT} yet: the run is under way, or was stopped and can be resumed")
    try:
        dataset = xr.load_dataset(path, engine="h5netcdf", decode_times=False)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{path} is broken: {str(error).partition(chr(10))[0]}") from error
    for attrs in (dataset.attrs, *(dataset[name].attrs for name in dataset.variables)):
        attrs.update({name: value.item() for name, value in attrs.items() if isinstance(value, np.generic)})
    return dataset


def append_log(folder: pathlib.Path, record: Mapping[str, Any]) -> None:
    """Add a line to the log, in one write. What a killed process left of a line is cut off first.

    Raises:
      OSError: the folder is read-only, or the disk is full; the log then has the lines it had.
    """
    line = to_json(record, indent=None)
    with explained("write the log", folder / LOG), (folder / LOG).open("ab+", buffering=0) as file:
        end = _whole_lines(file)
        file.truncate(end)
        if file.write(line) != len(line):
            file.truncate(end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_log(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The records of the log, oldest first; what a killed process left of a last line is not one.

    Raises:
      ValueError: a line is broken.
    """
    path = folder / LOG
    if not path.is_file():
        return []
    *lines, _ = path.read_bytes().split(b"\n")
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise ValueError(f"{path} is broken: {error}") from error


def truncate_log(folder: pathlib.Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Rewrite the log with the records `keep` is true of, as when a run starts again from an earlier round."""
    lines = [to_json(record, indent=None) for record in read_log(folder) if keep(record)]
    with explained("write the log", folder / LOG):
        atomic_file.write(folder / LOG, b"".join(lines))


def runs(root: pathlib.Path) -> list[Entry]:
    """Every run in `root` and in the folders below it, oldest first; one that cannot be read is "broken".

    Raises:
      ValueError: `root` is no folder.
    """
    if not root.is_dir():
        raise ValueError(f"root must be a folder, got {root}")
    found = []
    for folder, inside, files in os.walk(root):
        inside[:] = [name for name in inside if name != CHECKPOINT]
        if MANIFEST in files:
            found.append(_entry(pathlib.Path(folder)))
    return sorted(found, key=lambda entry: (entry.date, entry.folder))


def _entry(folder: pathlib.Path) -> Entry:
    try:
        manifest, log = read_manifest(folder), read_log(folder)
        last = log[-1] if log else {}
        return Entry(
            folder=folder,
            system=str(manifest.get("system", "-")),
            status="finished" if (folder / RESULT).is_file() else "unfinished",
            rounds_done=_rounds_done(log),
            rounds=int(manifest["rounds"]) * int(manifest.get("runs", 1)),
            date=str(manifest["date"]),
            metrics={name: math.nan if value is None else value for name, value in last.get("metrics", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return Entry(folder, "-", "broken", 0, 0, "", {})


def _rounds_done(log: list[dict[str, Any]]) -> int:
    """Runs of a sweep go side by side in a batch, and each has a record of a chunk."""
    batches: dict[int, list[int]] = {}
    for record in log:
        batches.setdefault(record.get("batch", 0), []).append(record["round"])
    return sum(max(rounds) * rounds.count(max(rounds)) for rounds in batches.values())


def _whole_lines(file: Any) -> int:
    """Length of a log up to the end of its last whole line."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    if file.read(1) in (b"", b"\n"):
        return size
    file.seek(0)
    return file.read().rfind(b"\n") + 1


def _claim(part: pathlib.Path, path: pathlib.Path) -> None:
    """Give a whole file a name that must be new. Where there are no hard links, the name exists for a moment before."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        os.replace(part, path)


def to_json(value: Any, indent: int | None = 2) -> bytes:
    """A line of JSON, or several; a number that is not finite is null, as JSON has no other name for it."""
    return json.dumps(_finite(value), indent=indent, default=str, allow_nan=False).encode() + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _taken(folder: pathlib.Path) -> FileExistsError:
    return FileExistsError(f"folder {folder} is not empty: choose another name, or resume the run it holds")


@contextlib.contextmanager
def explained(doing: str, path: pathlib.Path) -> Iterator[None]:
    """Errors of the system say in one line what could not be done, and where."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"cannot {doing}, {error.strerror}", str(path)) from error

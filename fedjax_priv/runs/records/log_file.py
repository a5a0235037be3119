"""`log.jsonl`: a line per run before the first round and after each chunk of rounds.

Every line is whole, except perhaps the last one if the process was killed.
"""

import errno
import json
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from fedjax_priv.runs.records import atomic_file

LOG = "log.jsonl"


def append(folder: pathlib.Path, record: Mapping[str, Any]) -> None:
    """Adds a line in one write, after removing a partial line that a killed process left.

    Raises:
      OSError: the folder is read-only, or the disk is full; the log then has the same lines as before.
    """
    line = atomic_file.to_json(record, indent=None)
    with atomic_file.explained("write the log", folder / LOG), (folder / LOG).open("ab+", buffering=0) as file:
        end = _whole_lines(file)
        file.truncate(end)
        if file.write(line) != len(line):
            file.truncate(end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The lines, oldest first, without empty lines and without a partial last line that a killed process left.

    Raises:
      ValueError: a line is broken.
    """
    path = folder / LOG
    if not path.is_file():
        return []
    *lines, _ = path.read_bytes().split(b"\n")
    try:
        records = [json.loads(line) for line in lines if line.strip()]
    except ValueError as error:
        raise ValueError(f"{path} is broken: {error}") from error
    if wrong := [record for record in records if not isinstance(record, dict)]:
        raise ValueError(f"{path} is broken: a line is {wrong[0]!r}, which is no object")
    return records


def truncate(folder: pathlib.Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Keeps only the lines for which `keep` is true, as when a run starts again from an earlier round.

    Raises:
      ValueError: a line is broken, or lacks what `keep` reads.
    """
    try:
        lines = [atomic_file.to_json(record, indent=None) for record in read(folder) if keep(record)]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder / LOG} is broken: a line is not that of a run, {error!r}") from error
    with atomic_file.explained("write the log", folder / LOG):
        atomic_file.write(folder / LOG, b"".join(lines))


def _whole_lines(file: Any) -> int:
    """Bytes of a log up to the end of its last whole line."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    if file.read(1) in (b"", b"\n"):
        return size
    file.seek(0)
    return file.read().rfind(b"\n") + 1

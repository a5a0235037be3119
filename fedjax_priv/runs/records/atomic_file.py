"""Writes a file whole or not at all, even if the process or the machine stops; encodes JSON; explains disk errors."""

import contextlib
import json
import math
import os
import pathlib
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from typing import Any


def write(path: pathlib.Path, content: bytes) -> None:
    """Writes or replaces a file: a reader finds the whole old file or the whole new one, even after a crash.

    Args:
      path: file to write or to replace; its folder must exist.
      content: of the file.

    Raises:
      OSError: the folder is missing or read-only, or the disk is full. The old file, if any, is untouched, and nothing
        is left behind.
    """
    part = path.parent / f".{path.name}.{uuid.uuid4().hex}.part"
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: pathlib.Path) -> None:
    """Writes a folder to the disk, so that a new name in it survives a crash; some systems do this themselves."""
    with contextlib.suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def explained(doing: str, path: pathlib.Path) -> Iterator[None]:
    """Rewrites an `OSError` that is raised inside: it says in one line what could not be done, and where."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"cannot {doing}, {error.strerror}", str(path)) from error


def check_folder(folder: pathlib.Path) -> None:
    """Checks that a folder can be written: makes a file in it and removes the file.

    Raises:
      OSError: no file can be made there.
    """
    with explained("write in the folder", folder), tempfile.TemporaryFile(dir=folder):
        pass


def to_json(value: Any, indent: int | None = 2) -> bytes:
    """JSON, on one line if `indent` is None. A number that is not finite becomes null, as JSON cannot hold it."""
    return json.dumps(_finite(value), indent=indent, default=str, allow_nan=False).encode() + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

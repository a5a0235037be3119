"""Files that are there whole or not at all, whenever the process or the machine stops."""

import contextlib
import os
import pathlib
import uuid


def write(path: pathlib.Path, content: bytes) -> None:
    """Put a file in place: a reader finds the old one or the new one, whole, even after a crash.

    Args:
      path: file to write or to replace; its folder exists.
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
    """A new name survives a crash once its folder is on the disk too; systems that cannot open one do it themselves."""
    with contextlib.suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

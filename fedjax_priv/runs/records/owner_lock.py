"""A lock on the folder of a run: two processes must not write to it at once."""

import pathlib
from typing import IO

try:
    import fcntl
except ImportError:  # on Windows two processes in one folder go unnoticed
    fcntl = None


def only_owner(path: pathlib.Path) -> IO[bytes]:
    """Locks the file `path` until the returned file is closed or the process ends in any way.

    Raises:
      BlockingIOError: another process has the lock.
      OSError: the file system has no locks.
    """
    file = path.open("wb")
    if fcntl:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if isinstance(error, BlockingIOError):
                raise BlockingIOError(f"folder {path.parent.parent} is in use by another run") from None
            raise OSError(error.errno, f"cannot lock, {error.strerror}", str(path)) from error
    return file

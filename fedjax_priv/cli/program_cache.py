"""Compiled programs of commands, kept in the user's cache folder: the same command then starts at once.

`run` keeps its rounds as whole programs, which are neither traced nor lowered again; JAX keeps all other programs. JAX
names a program by its computation, the versions of JAX and XLA, the flags and the features of the processor, so a
folder that several machines share does no harm. A program that another process is writing is compiled again.
"""

import os
import pathlib
import sys
import tempfile

import jax

MOST_BYTES = 2**30
"""Of the folder when a command starts; a program takes 0.1 to 1 MB, a whole one of `run` about 3 MB."""
_OFF = "JAX_ENABLE_COMPILATION_CACHE=false"


def keep_programs() -> None:
    """Keep compiled programs from now on, and say where; or say why not.

    A folder that the user has set for JAX stays, and so does `JAX_ENABLE_COMPILATION_CACHE=false`, which keeps none.
    """
    if jax.config.values["jax_compilation_cache_dir"] or not _enabled():
        return
    try:
        folder = _programs()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        drop_oldest(folder, MOST_BYTES)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        print(f"fedjax-priv: compiled programs are not kept: {error}", file=sys.stderr)
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    print(f"fedjax-priv: compiled programs are kept in {folder} (not with {_OFF})", file=sys.stderr)


def folder_of_whole_programs() -> pathlib.Path | None:
    """Where `run` keeps its rounds; None if nothing is kept.

    That is so where a folder was chosen for JAX, as the size of our own alone is bounded, and for several processes.
    """
    ours = _enabled() and jax.config.values["jax_compilation_cache_dir"] == str(_programs())
    return _programs() if ours and jax.process_count() == 1 else None


def drop_oldest(folder: pathlib.Path, most_bytes: int) -> None:
    """Delete the files written first until the others have at most `most_bytes`; other processes may do the same."""
    written = []
    for entry in os.scandir(folder):
        try:
            about = entry.stat()
        except FileNotFoundError:
            continue
        written.append((about.st_mtime_ns, about.st_size, entry.path))
    total = sum(size for _, size, _ in written)
    for _, size, path in sorted(written):
        if total <= most_bytes:
            return
        pathlib.Path(path).unlink(missing_ok=True)
        total -= size


def _enabled() -> bool:
    return jax.config.values["jax_enable_compilation_cache"]


def _programs() -> pathlib.Path:
    return _cache_folder() / "fedjax_priv" / "programs"


def _cache_folder() -> pathlib.Path:
    """As the platform has it; on Linux by the XDG base directory specification, which ignores relative paths."""
    if sys.platform == "win32":
        return pathlib.Path(os.environ.get("LOCALAPPDATA") or pathlib.Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return pathlib.Path.home() / "Library" / "Caches"
    given = os.environ.get("XDG_CACHE_HOME", "")
    return pathlib.Path(given) if os.path.isabs(given) else pathlib.Path.home() / ".cache"

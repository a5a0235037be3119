"""The file of `--json`: what a command printed, as rows."""

import pathlib
from collections.abc import Sequence
from typing import Any

import jax

from fedjax_priv.engine import processes
from fedjax_priv.runs.records import atomic_file


def check_place(file: pathlib.Path | None) -> None:
    """Refuse a folder that is missing or cannot be written, or an existing file, before the work begins.

    Raises:
      OSError: the file cannot be new.
    """
    if file is None:
        return
    if not file.parent.is_dir():
        raise FileNotFoundError(f"json must be a file in a folder that exists, got {file}")
    _check_new(file)
    atomic_file.check_folder(file.parent)


def write(file: pathlib.Path | None, rows: Sequence[Any]) -> None:
    """Write NamedTuples, if there is a file to write.

    Of several processes the first one writes; asking which this is would start the devices of one that is alone.

    Raises:
      OSError: the file cannot be written, or was made since `check_place`, perhaps by this command.
    """
    if file is not None and (not jax.distributed.is_initialized() or processes.is_first()):
        _check_new(file)
        with atomic_file.explained("write the json", file):
            atomic_file.write(file, atomic_file.to_json([row._asdict() for row in rows]))


def _check_new(file: pathlib.Path) -> None:
    if file.exists():
        raise FileExistsError(f"json must be a new file, got {file}")

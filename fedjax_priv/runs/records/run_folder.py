"""Makes the folder of a run; writes and reads its manifest and its result."""

import io
import json
import os
import pathlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np
import xarray as xr

from fedjax_priv.runs.records import atomic_file

MANIFEST, RESULT, CHECKPOINT = "manifest.json", "result.nc", "checkpoint"
# Level 1 without byte shuffling: a sixth of the size, and quicker to write than the plain values.
_COMPRESSED = {"zlib": True, "complevel": 1, "shuffle": False}
_OF_CARDS = ("python -m experiments", "python experiments/")
"""Prefixes of the command in the manifest of a card; older cards have the second one."""


class CardError(ValueError):
    """The folder belongs to a card of `reproduce`, and not to a run."""


def create(folder: pathlib.Path, manifest: Mapping[str, Any]) -> None:
    """Makes the folder of a new run, and its parents; if several processes try at once, only one succeeds.

    Args:
      folder: missing or empty. Unfinished files of a process that was killed inside this function do not count.
      manifest: describes the run, in values that JSON can hold.

    Raises:
      FileExistsError: the folder is not empty.
      OSError: the folder cannot be made or written: it is read-only, a file has its name, or the disk is full.
    """
    with atomic_file.explained("make the folder of a run", folder):
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{MANIFEST}.{uuid.uuid4().hex}.part"
        if any(not (path.name.startswith(".") and path.suffix == ".part") for path in folder.iterdir()):
            raise _taken(folder)
        try:
            atomic_file.write(part, atomic_file.to_json(manifest))
            _claim(part, folder / MANIFEST)
        except FileExistsError:
            raise _taken(folder) from None
        finally:
            part.unlink(missing_ok=True)


def read_manifest(folder: pathlib.Path) -> dict[str, Any]:
    """Reads the manifest that `create` wrote.

    Raises:
      CardError: the folder belongs to a card of `reproduce`.
      ValueError: the folder is missing or does not belong to a run, or its manifest is broken.
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
    if str(manifest.get("command")).startswith(_OF_CARDS):
        raise CardError(f"{folder} is not the folder of a run: it is that of a card of `reproduce`")
    return manifest


def save(folder: pathlib.Path, dataset: xr.Dataset) -> None:
    """Writes the result; it replaces an older one.

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
    with atomic_file.explained("write the result", folder / RESULT):
        atomic_file.write(folder / RESULT, file.getvalue())


def can_hold(attrs: Mapping[Any, Any], coords: Mapping[str, Sequence[Any]]) -> bool:
    """Whether a result with these attributes and values of axes can be saved, and is the same when it is loaded."""
    file = io.BytesIO()
    try:
        dataset = xr.Dataset(coords={name: (name, list(labels)) for name, labels in coords.items()}, attrs=attrs)
        dataset.to_netcdf(file, engine="h5netcdf")
        return xr.load_dataset(file, engine="h5netcdf", decode_times=False).identical(dataset)
    except (ValueError, TypeError, AttributeError, OverflowError):
        return False


def is_saved(folder: pathlib.Path) -> bool:
    """Whether the run of a folder has a result; only the file's header is read.

    Raises:
      ValueError: the file is broken, for instance cut short.
    """
    path = folder / RESULT
    if not path.is_file():
        return False
    try:
        h5py.File(path, "r").close()
    except Exception as error:  # HDF5 raises different errors for different wrong bytes
        raise _broken(path, error) from error
    return True


def load(folder: str | os.PathLike) -> xr.Dataset:
    """The result of a run, in memory, bit for bit as it was saved.

    Raises:
      ValueError: the folder does not belong to a run, the run has no result yet, or the file is broken.
    """
    folder = pathlib.Path(folder)
    read_manifest(folder)
    path = folder / RESULT
    if not path.is_file():
        raise ValueError(f"{folder} has no {RESULT} yet: the run is in progress, or was stopped and can be resumed")
    try:
        dataset = xr.load_dataset(path, engine="h5netcdf", decode_times=False)
    except Exception as error:  # HDF5 raises different errors for different wrong bytes
        raise _broken(path, error) from error
    for attrs in (dataset.attrs, *(dataset[name].attrs for name in dataset.variables)):
        attrs.update({name: value.item() for name, value in attrs.items() if isinstance(value, np.generic)})
    return dataset


def _broken(path: pathlib.Path, error: Exception) -> ValueError:
    return ValueError(f"{path} is broken: {str(error).partition(chr(10))[0]}")


def _claim(part: pathlib.Path, path: pathlib.Path) -> None:
    """Gives a finished file a name that must be new. Without hard links, the name holds an empty file for a moment."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        os.replace(part, path)


def _taken(folder: pathlib.Path) -> FileExistsError:
    or_resume = ", or resume the run it holds" if (folder / MANIFEST).exists() else ""
    return FileExistsError(f"folder {folder} is not empty: choose another name{or_resume}")

"""Gains from a NumPy file, made by another program, such as Sionna, or measured."""

import os
import pathlib
import zipfile
from typing import Any

import numpy as np

from fedjax_priv import _validate
from fedjax_priv.channels.fading import Fading, recorded


def gains_from_file(
    path: str | pathlib.Path, *, name: str = "gains", antenna: int | None = None, rounds: int | None = None
) -> Fading:
    """Fading with the amplitudes of complex gains from a file, for rounds 1, 2, ...

    Only the amplitude of a gain matters: a client that knows its gain inverts the phase too, and the phase of an
    estimate's error is uniform. A round beyond the last one of the file fails.

    Args:
      path: of a `.npy` file, or of a `.npz` file that has an array `name`; real or complex, `[rounds, clients]` or
        `[rounds, clients, antennas]`, linear (not in dB), of one subcarrier.
      name: of the array in a `.npz` file.
      antenna: which antenna of the receiver is used, from 0; needed if the array has an axis of antennas.
      rounds: of the run. The file must have at least so many; not checked if not given.

    Raises:
      ValueError: the file has another form, or too few rounds or antennas; a gain is 0 or not finite; or (when a round
        is traced) the file has another number of clients.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "gains.npy"
      >>> np.save(path, np.array([[3 + 4j, 1j], [0.5, 2]]))
      >>> gains, state = jax.jit(gains_from_file(path).apply, static_argnums=3)(jax.random.key(0), (), 0, 2)
      >>> print(gains)
      [5. 1.]
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path must be the path of a .npy or .npz file, got {path!r}")
    table = _of_one_antenna(_read(pathlib.Path(path), name), antenna)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"path must have gains of shape [rounds, clients] or [rounds, clients, antennas]{_got(table)}")
    if rounds is not None:
        _validate.integer(rounds=rounds)
        if len(table) < rounds:
            raise ValueError(f"path must have gains of {rounds} rounds, got {len(table)}")
    held = (abs(table) >= _validate.LEAST) & (abs(table) <= _validate.LARGEST)
    if (wrong := np.argwhere(~held)).size:
        round, client = wrong[0]
        raise ValueError(
            f"path must have finite gains other than 0 in float32, got {table[round, client]} at [{round}, {client}]"
        )
    return recorded(abs(table))


def _read(path: pathlib.Path, name: str) -> np.ndarray:
    """The array in a file.

    Raises:
      ValueError: the file has no such array, or the array does not hold real or complex numbers.
    """
    try:
        found: Any = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"path must be a .npy or .npz file of numbers, got {path}") from None
    if not isinstance(found, np.ndarray):
        with found:
            if name not in found:
                raise ValueError(f"name must be one of {', '.join(found)}, got {name!r}")
            found = found[name]
    if found.dtype.kind not in "fc":
        raise ValueError(f"path must have real or complex gains, got {found.dtype}")
    return found


def _of_one_antenna(table: np.ndarray, antenna: int | None) -> np.ndarray:
    if table.ndim != 3:
        if antenna is not None:
            raise ValueError(f"antenna must be None if path has no axis of antennas{_got(table)}")
        return table
    if not isinstance(antenna, int) or not 0 <= antenna < table.shape[2]:
        raise ValueError(f"antenna must be an integer from 0 to {table.shape[2] - 1}, got {antenna!r}")
    return table[:, :, antenna]


def _got(table: np.ndarray) -> str:
    return f", got shape {table.shape}"

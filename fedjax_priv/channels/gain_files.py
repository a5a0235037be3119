"""Gains that another program has made or measured, such as Sionna, from a NumPy file."""

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
    """Complex gains of links, recorded elsewhere: their amplitudes are the gains of round 1, 2, ...

    A client that knows its gain inverts its phase too, and errors of estimates have a phase that is uniform, so the
    amplitude of a gain is all that matters. A round beyond the last one of the file fails.

    Args:
      path: of a `.npy` file, or of a `.npz` file that has an array `name`; real or complex, `[rounds, clients]` or
        `[rounds, clients, antennas]`, linear (not in dB), of one subcarrier.
      name: of the array in a `.npz` file.
      antenna: which antenna of the receiver is used, from 0; needed where the file has several.
      rounds: of the run, which the file must have; not checked if not given.

    Raises:
      ValueError: the file is of another form, or has fewer rounds or antennas; or a gain is 0 or not finite. Another
        number of clients is refused when the round is traced.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "gains.npy"
      >>> np.save(path, np.array([[3 + 4j, 1j], [0.5, 2]]))
      >>> gains, state = jax.jit(gains_from_file(path).apply, static_argnums=3)(jax.random.key(0), (), 0, 2)
      >>> print(gains)
      [5. 1.]
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path must be that of a .npy or .npz file, got {path!r}")
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
      ValueError: there is none, or it does not hold numbers.
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
            raise ValueError(f"antenna must be None where there is one{_got(table)}")
        return table
    if not isinstance(antenna, int) or not 0 <= antenna < table.shape[2]:
        raise ValueError(f"antenna must be an integer from 0 to {table.shape[2] - 1}, got {antenna!r}")
    return table[:, :, antenna]


def _got(table: np.ndarray) -> str:
    return f", got shape {table.shape}"

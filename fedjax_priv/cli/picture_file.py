"""The file of a picture, written whole or not at all."""

import io
import pathlib

from matplotlib.figure import Figure

from fedjax_priv.runs.records import atomic_file


def write(figure: Figure, path: pathlib.Path) -> None:
    """Writes or replaces a picture in the form that its suffix names; a picture that is there stays if that fails.

    Raises:
      OSError: the folder is missing or read-only, or the disk is full.
    """
    file = io.BytesIO()
    figure.savefig(file, format=path.suffix.removeprefix("."), dpi=150)
    with atomic_file.explained("write the picture", path):
        atomic_file.write(path, file.getvalue())

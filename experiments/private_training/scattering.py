"""Scattering features of images (Oyallon and Mallat 2015), as Tramer and Boneh 2021 (arXiv 2011.11660) train on them.

They come from no data, so they cost no privacy. The package `kymatio` computes them: `pip install kymatio==0.3.0`.
"""

import os
import pathlib

import numpy as np
from jaxtyping import Float32

CHANNELS, SIDE, GROUPS = 81, 7, 27
SIZE = CHANNELS * SIDE * SIDE
_AT_ONCE = 1000


def features(images: Float32[np.ndarray, "k 28 28 1"], name: str) -> Float32[np.ndarray, "k 3969"]:
    """Scattering of depth 2 with 8 angles over 4x4 squares, normalised in 27 groups of 3 channels; kept in a file.

    Args:
      images: pixels in [0, 1].
      name: of the file, in `$SCATTERING_DIR` or else `~/.cache/fedjax_priv_scattering`. One that is there is not
        computed again: delete it if the images change.

    Raises:
      ImportError: kymatio is not installed.
    """
    folder = pathlib.Path(os.environ.get("SCATTERING_DIR") or "~/.cache/fedjax_priv_scattering").expanduser()
    file = folder / f"{name}-{len(images)}.npy"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(f".{os.getpid()}.npy")
        np.save(unfinished, _computed(images))
        unfinished.rename(file)
    return np.load(file, mmap_mode="r")


def _computed(images: np.ndarray) -> np.ndarray:
    # what `kymatio.numpy` exports; it also imports a three-dimensional part, which SciPy 1.17 breaks
    from kymatio.scattering2d.frontend.numpy_frontend import ScatteringNumPy2D  # pyright: ignore[reportMissingImports]

    scatter = ScatteringNumPy2D(J=2, shape=images.shape[1:3])
    parts = [images[at : at + _AT_ONCE, :, :, 0] for at in range(0, len(images), _AT_ONCE)]
    return np.concatenate([grouped(scatter(part)) for part in parts])


def grouped(maps: Float32[np.ndarray, "k 81 7 7"]) -> Float32[np.ndarray, "k 3969"]:
    """Each sample's maps with mean 0 and deviation 1 in each of 27 groups (Wu and He 2018)."""
    rows = maps.reshape(len(maps), GROUPS, -1)
    centred = rows - rows.mean(2, keepdims=True)
    normal = centred / np.sqrt(centred.var(2, keepdims=True) + 1e-5)
    return normal.reshape(len(maps), -1).astype(np.float32)

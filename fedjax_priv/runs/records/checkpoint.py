"""`checkpoint/`: the chunks that runs have finished, each written once, and the state after the last one.

`state.npz` lists the valid chunk files. It is replaced in one step, after these files are written. So at any moment the
folder holds one position from which the runs can be resumed.
"""

import collections
import io
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fedjax_priv.base import Link, absent
from fedjax_priv.runs.records import atomic_file
from fedjax_priv.runs.records.result_dataset import Chunk

STATE = "state.npz"


class Position(NamedTuple):
    """How far the runs have come; waves run one after the other."""

    wave: int = 0  # the wave in progress
    files: tuple[tuple[str, ...], ...] = ((),)  # for each wave up to this one, the files of its finished chunks
    state: tuple[np.ndarray, ...] = ()  # of this wave; empty before its first checkpoint and after its last


def read(folder: pathlib.Path) -> Position:
    """The last position that was written, or the start if there is none.

    Raises:
      ValueError: `state.npz` is broken.
    """
    if not (folder / STATE).is_file():
        return Position()
    about, arrays = _decode(folder / STATE)
    return Position(about["wave"], tuple(map(tuple, about["files"])), tuple(arrays))


def write(folder: pathlib.Path, position: Position) -> None:
    """Replaces the position; the chunk files that it lists must exist.

    Raises:
      OSError: the folder is read-only, or the disk is full; the older position remains valid.
    """
    atomic_file.write(folder / STATE, _encode({"wave": position.wave, "files": position.files}, position.state))


def write_chunks(path: pathlib.Path, chunks: Sequence[Chunk]) -> None:
    """Write finished chunks.

    Raises:
      OSError: the folder is read-only, or the disk is full.
    """
    about, arrays = [], []
    for chunk in chunks:
        names, leaves = _flat(chunk)
        about.append({"rounds": chunk.rounds, "seconds": chunk.seconds, "arrays": names})
        arrays += leaves
    atomic_file.write(path, _encode(about, arrays))


def read_chunks(path: pathlib.Path) -> list[Chunk]:
    """Chunks, as they were written.

    Raises:
      ValueError: the file is missing or broken.
    """
    about, arrays = _decode(path)
    leaves = iter(arrays)
    return [_unflat(chunk, {name: next(leaves) for name in chunk["arrays"]}) for chunk in about]


def _flat(chunk: Chunk) -> tuple[list[str], list[np.ndarray]]:
    """Arrays of a chunk under names such as `info/loss`, `bits/upload/up`, in order."""
    arrays = {f"info/{name}": array for name, array in chunk.info.items() if name != "bits"}
    for phase, link in chunk.info["bits"].items():
        arrays |= {f"bits/{phase}/up": link.up, f"bits/{phase}/down": link.down}
    arrays |= {f"metrics/{name}": array for name, array in chunk.metrics.items()}
    if not absent(chunk.params):
        arrays["params/"] = chunk.params
    return list(arrays), list(arrays.values())


def _unflat(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Chunk:
    """Inverse of `_flat`: the fields of `info` come in the same order, and its bits last."""
    parts: dict[str, dict[str, np.ndarray]] = collections.defaultdict(dict)
    for name, array in arrays.items():
        kind, _, rest = name.partition("/")
        parts[kind][rest] = array
    ways = parts["bits"]
    phases = dict.fromkeys(name.rpartition("/")[0] for name in ways)
    bits = {phase: Link._make(ways[f"{phase}/{way}"] for way in Link._fields) for phase in phases}
    info = {**parts["info"], "bits": collections.OrderedDict(bits)}
    return Chunk(about["rounds"], about["seconds"], info, parts["metrics"], parts["params"].get("", ()))


def _encode(about: Any, arrays: Sequence[np.ndarray]) -> bytes:
    """An npz of the arrays' bytes, which can hold types that NumPy does not know, such as bfloat16."""
    file = io.BytesIO()
    header = {"about": about, "types": [(str(array.dtype), array.shape) for array in arrays]}
    raw = (np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8) for array in arrays)
    np.savez(file, np.frombuffer(json.dumps(header).encode(), np.uint8), *raw)
    return file.getvalue()


def _decode(path: pathlib.Path) -> tuple[Any, list[np.ndarray]]:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            header, *raw = (file[name] for name in file.files)
        header = json.loads(header.tobytes())
        arrays = [
            np.frombuffer(data.tobytes(), jnp.dtype(dtype)).reshape(shape)
            for data, (dtype, shape) in zip(raw, header["types"], strict=True)
        ]
    except Exception as error:  # zipfile and NumPy raise different errors for different wrong bytes
        raise ValueError(f"{path} is broken: {error}") from error
    return header["about"], arrays

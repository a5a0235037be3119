"""Keeps whole compiled programs in a folder: a process that finds its program does not trace, lower or compile.

A file's name is a digest of all that its program depends on: what is run, on which samples, the shapes of its
arguments, the sources of this package, versions, devices, processor, environment and JAX's settings. Samples are
arguments, but an algorithm may be made from them, as its noise is from the sizes of clients.
"""

import functools
import hashlib
import os
import pathlib
import pickle
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any, NamedTuple

import jax
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache
from jaxtyping import PyTree

from fedjax_priv.runs.programs.lowering import LoweredProgram
from fedjax_priv.runs.records import atomic_file

SUFFIX = ".program"
LIBRARIES = ("jax", "jaxlib", "numpy", "flax", "optax", "scipy", "dp-accounting", "ml-dtypes", "chex", "equinox")
"""Libraries on whose versions a program may depend."""
ENVIRONMENT = ("JAX", "XLA", "TF_", "LIBTPU", "TPU", "CUDA", "NVIDIA", "ROCM", "HIP", "OMP", "KMP", "MKL")
"""Prefixes of the environment variables on which a program may depend."""


class KeptPrograms(NamedTuple):
    """Where programs are kept, and what is run.

    The caller promises that `about` states everything that programs depend on, except the shapes of their arguments and
    what `surroundings` returns. Values are compared by their `repr`.
    """

    folder: pathlib.Path
    about: Mapping[str, Any]


_NO_FORM = (ValueError, NotImplementedError, AttributeError, TypeError, pickle.PicklingError)


def kept_or_lowered(
    kept: KeptPrograms, rounds: int, args: PyTree, devices: Sequence[Any], lower: Callable[[], LoweredProgram]
) -> LoweredProgram:
    """The program of a chunk: read from its file, or else lowered now, and written to the file once it is compiled.

    If a file is damaged, or cannot be written, one line on standard error says so, and the run continues. A damaged
    file is written again.

    Args:
      kept: where programs are kept, and what is run.
      rounds: of the chunk.
      args: of the program, arrays or their shapes with shardings.
      devices: all devices that the program runs on.
      lower: traces and lowers the program.
    """
    path = kept.folder / (name_of(kept.about, rounds, args, surroundings(devices)) + SUFFIX)
    found = _read(path, devices)
    if found is not None:
        return found
    lowered = lower()
    return lowered._replace(compile=lambda: _compile_and_write(lowered, path))


def name_of(about: Mapping[str, Any], rounds: int, args: PyTree, around: Mapping[str, Any]) -> str:
    """64 hexadecimal digits, which differ if the program or its surroundings differ."""
    shapes = [(a.shape, str(a.dtype), getattr(a, "weak_type", False), str(a.sharding)) for a in jax.tree.leaves(args)]
    whole = (sorted(about.items()), rounds, shapes, str(jax.tree.structure(args)), sorted(around.items()))
    return hashlib.sha256(repr(whole).encode()).hexdigest()


def surroundings(devices: Sequence[Any]) -> dict[str, Any]:
    """What a program depends on besides what is run, by name; different values have different `repr`."""
    client = devices[0].client
    return {
        "sources": sources_of(pathlib.Path(__file__).parents[2]),
        "python": sys.version,
        "libraries": [(name, _version(name)) for name in LIBRARIES],
        "platform": (client.platform, client.platform_version, len(jax.devices()), jax.process_count()),
        "devices": [(device.id, device.device_kind, device.process_index) for device in devices],
        "processor": _processor(),
        "environment": sorted(pair for pair in os.environ.items() if pair[0].startswith(ENVIRONMENT)),
        "settings": sorted((name, repr(value)) for name, value in jax.config.values.items()),
    }


@functools.cache
def sources_of(root: pathlib.Path) -> str:
    """Digest of the paths and contents of all modules of a package, computed once per process."""
    whole = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        content = file.read_bytes()
        whole.update(b"%s %d " % (str(file.relative_to(root)).encode(), len(content)) + content)
    return whole.hexdigest()


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    """What machine code may depend on: the first processor's features if Linux lists them, else the machine's name."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return repr(platform.uname())
    features = [line for line in lines if line.partition("\t")[0] in ("flags", "Features", "model name")]
    return platform.machine() + "".join(features or repr(platform.uname()))


def _compile_and_write(lowered: LoweredProgram, path: pathlib.Path) -> Any:
    """Compiles without JAX's own cache, since an executable that was read from it cannot be serialized."""
    with _without_jax_s_cache():
        compiled = lowered.compile()
    try:
        executable, *trees = serialize_executable.serialize(compiled)
    except _NO_FORM:  # it calls the host, or the platform cannot write it
        return compiled
    out_info = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), lowered.out_info)  # devices do not pickle
    content = pickle.dumps((executable, *trees, out_info, lowered.digest))
    try:
        atomic_file.write(path, hashlib.sha256(content).digest() + content)
    except OSError as error:
        print(f"fedjax-priv: a compiled program is not kept: {error}", file=sys.stderr)
    return compiled


def _read(path: pathlib.Path, devices: Sequence[Any]) -> LoweredProgram | None:
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    digest, content = whole[:32], whole[32:]
    try:
        if hashlib.sha256(content).digest() != digest:
            raise ValueError("its digest is not that of its content")
        executable, in_tree, out_tree, out_info, name = pickle.loads(content)
        compiled = serialize_executable.deserialize_and_load(
            executable, in_tree, out_tree, execution_devices=[*devices]
        )
    except Exception as error:  # a library may raise anything on bytes that it did not write
        why = (str(error).splitlines() or [type(error).__name__])[0]
        print(f"fedjax-priv: {path} cannot be used and is made again: {why}", file=sys.stderr)
        return None
    return LoweredProgram(name, out_info, lambda: compiled)


@contextmanager
def _without_jax_s_cache() -> Iterator[None]:
    enabled = jax.config.values["jax_enable_compilation_cache"]
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()  # JAX decides once whether it has one
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", enabled)
        compilation_cache.reset_cache()

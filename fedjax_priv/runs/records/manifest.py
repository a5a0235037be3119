"""The manifest, in `manifest.json` and in every result: versions, devices, commit, key and arguments."""

import datetime
import json
import os
import pathlib
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import jax
import numpy as np

from fedjax_priv.base import Key
from fedjax_priv.runs.records import atomic_file

VOLATILE = {"commit", "date", "numpy_version", "python_version", "processes"}
"""Entries that may differ when a run is resumed; facts notice a difference that would change the run."""
OF_THE_END = {"caveats", "num_params", "programs", "compile_seconds", "interrupted", "rounds_done", "failed_rounds",
              "failed_because", "waves", "runs_done"}  # fmt: skip
"""Entries that a run adds when it has ended."""


def manifest(*, key: Key, **arguments: Any) -> dict[str, str | int | float]:
    """Describes a run, so that it can be run again.

    Args:
      key: root key of the run, a typed scalar key.
      **arguments: what the run was called with. Numbers and strings are kept, truth values become 0 or 1, and any other
        value becomes its `str`.

    Returns:
      `<package>_version` of fedjax_priv, jax, jaxlib, numpy and python; `backend`, `device_kind`, `num_devices` (all
      that JAX sees); `xla_flags` (of the environment variable XLA_FLAGS, or "none"); `commit` of the checkout that
      contains the package, ending in `-dirty` if tracked files were changed, `"unknown"` outside a checkout; `date`
      (UTC, ISO 8601); `key` (the words of the key in hexadecimal), `key_impl`; then the arguments. Values are strings
      and numbers.
    """
    devices = jax.devices()
    return {
        "fedjax_priv_version": _version("fedjax-priv"),
        "jax_version": jax.__version__,
        "jaxlib_version": _version("jaxlib"),
        "numpy_version": np.__version__,
        "python_version": platform.python_version(),
        "backend": jax.default_backend(),
        "device_kind": devices[0].device_kind,
        "num_devices": len(devices),
        "xla_flags": " ".join(os.environ.get("XLA_FLAGS", "").split()) or "none",
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "key": " ".join(f"{word:08x}" for word in np.asarray(jax.random.key_data(key)).tolist()),
        "key_impl": str(jax.random.key_impl(key)),
    } | {name: plain(value) for name, value in arguments.items()}


def manifest_with(config: Mapping[str, Any], **arguments: Any) -> dict[str, str | int | float]:
    """The manifest of a run, with the entries of `keep.config`.

    Raises:
      ValueError: `config` has a name of the manifest, or of an entry that the result adds at the end.
    """
    own = manifest(**arguments)
    if taken := sorted(config.keys() & (own.keys() | OF_THE_END)):
        raise ValueError(f"keep.config must not use names of the manifest and of the result, got {taken}")
    return {name: plain(value) for name, value in config.items()} | own


def lasting(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that must be the same when a run is resumed, as JSON gives them back: nan and inf become None."""
    read = json.loads(atomic_file.to_json(asked))
    return {name: value for name, value in read.items() if name not in VOLATILE}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # imported from a checkout that is not installed
        return "unknown"


def commit() -> str:
    """Commit of the checkout that tracks this file. An environment inside another project's checkout does not count.

    Returns:
      40 hexadecimal digits, followed by `-dirty` if tracked files were changed; `"unknown"` outside a checkout.
    """
    file = pathlib.Path(__file__).resolve()
    git = ["git", "-C", str(file.parent)]
    try:
        for arguments in (
            ["ls-files", "--error-unmatch", file.name],
            ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        ):
            done = subprocess.run([*git, *arguments], capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def plain(value: Any) -> str | int | float:
    """A value as a number or a string, which an attribute of a netCDF file can be."""
    if isinstance(value, bool | np.bool_ | np.integer):
        return int(value)
    if isinstance(value, np.floating):
        return float(value)
    return value if isinstance(value, str | int | float) else str(value)

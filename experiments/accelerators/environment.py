"""The compilers of JAX for GPUs and TPUs, in a folder of their own: no driver, no CUDA and no device is needed.

python -m experiments.accelerators.environment FOLDER      400 MB from the package index, 1 GB on disk
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
from importlib import metadata


class NotMade(RuntimeError):
    """The index does not have them for this version of JAX and Python, or cannot be reached."""


def requirements() -> list[str]:
    """What pip installs: the plugin for CUDA of JAX's own version, and the libtpu that JAX asks for."""
    version = metadata.version("jax")
    asked = [re.match(r"libtpu *([^; ]+)", line) for line in metadata.requires("jax") or []]
    tpu = next((found[1] for found in asked if found), "")
    return [f"jax-cuda12-plugin=={version}", f"jax-cuda12-pjrt=={version}", f"libtpu{tpu}"]


def made(folder: pathlib.Path) -> pathlib.Path:
    """The folder with the compilers in it; made once for each version of JAX and Python.

    Raises:
      NotMade: pip could not install them; nothing is left behind.
    """
    name = f"jax-{metadata.version('jax')}-python-{sys.version_info.major}.{sys.version_info.minor}"
    home = folder.absolute() / name
    if (home / "made").exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(home), *requirements()]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(home, ignore_errors=True)
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr[-200:]]
        raise NotMade(f"no compilers for accelerators: pip could not install {' '.join(requirements())}: {lines[-1]}")
    (home / "made").touch()
    return home


def variables(home: pathlib.Path) -> dict[str, str]:
    """The environment of a process that compiles with them: on a CPU, and with the project of this folder."""
    path = [str(pathlib.Path(__file__).parents[2]), str(home), *filter(None, [os.environ.get("PYTHONPATH")])]
    kept = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}  # those of a CPU's compiler
    return {**kept, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(path), "TF_CPP_MIN_LOG_LEVEL": "3"}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    try:
        print(made(parser.parse_args().folder))
    except NotMade as error:
        raise SystemExit(str(error)) from error

"""A virtual environment for each file of requirements, made once."""

import hashlib
import pathlib
import shutil
import subprocess
import sys


class NotMade(RuntimeError):
    """An environment could not be made."""


def python_of(requirements: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The interpreter of an environment with exactly these requirements, under `folder`.

    Its name has a hash of the requirements and the version of Python, so a change makes another one.

    Raises:
      NotMade: pip could not install them; nothing is left behind.
    """
    version = "{}.{}".format(*sys.version_info)
    digest = hashlib.sha256(requirements.read_bytes() + version.encode()).hexdigest()[:12]
    home = folder / f"{requirements.stem}-{digest}"
    python, made = home / "bin" / "python", home / "made"
    if made.exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    print(f"making {home}", file=sys.stderr)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, capture_output=True, text=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)]
        subprocess.run(install, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(home, ignore_errors=True)
        lines = [line for line in (getattr(error, "stderr", "") or str(error)).splitlines() if "ERROR" in line]
        raise NotMade(f"no environment for {requirements.name}: {lines[-1] if lines else error}") from error
    made.touch()
    return python

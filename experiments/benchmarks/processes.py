"""Runs a script that prints one line of JSON, and ends everything it started."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess


class Failed(RuntimeError):
    """A process ended without a result."""


def run_json(command: list[str], folder: pathlib.Path, variables: dict[str, str], timeout: float) -> dict:
    """What a process printed on the last line of its standard output.

    Args:
      command: program and arguments.
      folder: where it runs.
      variables: added to the environment variables.
      timeout: seconds.

    Raises:
      Failed: it exits with an error, takes too long or prints no JSON; the message is the last line of its errors.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # one group, so that workers end with it
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise Failed(f"took more than {timeout:.0f} s") from error
        except BaseException:
            _end(process)
            raise
    if process.returncode:
        lines = [line for line in err.splitlines() if line.strip()]
        raise Failed(lines[-1] if lines else f"ended with status {process.returncode}")
    try:
        return json.loads(out.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise Failed("printed no result") from error


def _end(process: subprocess.Popen) -> None:
    """The process and its group, if it has not just ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)

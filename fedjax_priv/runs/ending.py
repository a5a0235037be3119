"""How a run or a sweep ends: finished, interrupted by Ctrl-C, or broken off by an error."""

import sys
from collections.abc import Callable, Sized

import xarray as xr

from fedjax_priv.runs import sigterm
from fedjax_priv.runs.chunk_loop import Hooks, Log
from fedjax_priv.runs.records.run_writer import RunWriter


class SimulationError(RuntimeError):
    """An error, its cause, ended a run early; `dataset` holds what had finished before."""

    def __init__(self, message: str, dataset: xr.Dataset):
        super().__init__(message)
        self.dataset = dataset


def run_to_the_end(
    work: Callable[[Hooks], None],
    finished: Sized,
    *,
    result: Callable[..., xr.Dataset],
    so_far: Callable[[], str],
    writer: RunWriter | None,
    log: Log | None,
) -> xr.Dataset:
    """Do the work and write its result.

    Args:
      work: adds to `finished` as it goes on.
      finished: chunks or runs. If there are none, an error or Ctrl-C passes as it is.
      result: `result(interrupted=0 or 1)` is the dataset of what has finished.
      so_far: says how much that is.
      writer: of the run's folder. With one, SIGTERM ends the process after a checkpoint.
      log: as of `simulate`.

    Returns:
      The result; after Ctrl-C, that of what had finished.

    Raises:
      SimulationError: the work raised an error.
    """
    try:
        with sigterm.noticed(writer is not None) as stop:
            work(Hooks(writer, log, stop))
        whole = result(interrupted=0)
        if writer:
            writer.write_result(whole)
        return whole
    except KeyboardInterrupt:
        if not finished:
            raise
        print(f"interrupted: {so_far()} are kept", file=sys.stderr)
        return result(interrupted=1)
    except Exception as error:
        if not finished:
            raise
        raise SimulationError(f"after {so_far()}: {error}", result(interrupted=1)) from error

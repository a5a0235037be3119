"""How a process that was started from a command line joins the others of its run."""

from typing import NamedTuple

import jax

from fedjax_priv import _validate


class Launch(NamedTuple):
    """Which processes share a run; by default this one is alone.

    Args:
      coordinator: HOST:PORT of the first process, if several processes share the run.
      num_processes: number of processes that share the run.
      process_id: number of this process; the first is 0.
      distributed: share the run with the processes that a scheduler such as SLURM has started with this one.
    """

    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None
    distributed: bool = False


def join(launch: Launch) -> None:
    """Wait for the other processes and share their devices; nothing may have touched a device before.

    Raises:
      ValueError: options that do not go together or are out of range, or a scheduler that JAX does not know.
    """
    numbers = launch._asdict()
    distributed = numbers.pop("distributed")
    given = [name for name, value in numbers.items() if value is not None]
    if distributed and given:
        raise ValueError(f"distributed reads the processes from the environment, so leave out {', '.join(given)}")
    if given and len(given) < len(numbers):
        raise ValueError(f"{', '.join(numbers)} must be given together, got only {', '.join(given)}")
    if distributed:
        _find_the_others()
    elif given:
        _check_numbers(launch)
        jax.distributed.initialize(launch.coordinator, launch.num_processes, launch.process_id)


def _check_numbers(launch: Launch) -> None:
    host, _, port = (launch.coordinator or "").rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"coordinator must be HOST:PORT, got {launch.coordinator!r}")
    _validate.integer(num_processes=launch.num_processes)
    _validate.integer(at_least=0, process_id=launch.process_id)
    if not (launch.process_id or 0) < (launch.num_processes or 0):
        raise ValueError(f"process_id must be below num_processes = {launch.num_processes}, got {launch.process_id}")


def _find_the_others() -> None:
    try:
        jax.distributed.initialize()
    except ValueError as error:
        raise ValueError(
            "distributed needs a scheduler that JAX knows, such as SLURM; without one, give coordinator, num_processes "
            "and process_id"
        ) from error

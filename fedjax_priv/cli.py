"""The command `fedjax-priv`."""

import json
import pathlib
import sys
from collections.abc import Callable

import tyro


def _demo(
    out: pathlib.Path = pathlib.Path("results/demo"),
    rounds: int = 40,
    seed: int = 0,
    json: pathlib.Path | None = None,
) -> None:
    """Train 100 clients on digits in the clear and under secure aggregation; print a table, write a figure.

    Args:
      out: folder for the figure and the table.
      rounds: rounds of each system.
      seed: of the split, the initial model and every draw.
      json: file for the printed table.
    """
    from fedjax_priv.demo import demo

    _save(lambda: demo(out, rounds, seed), json)


def _bench(repeats: int = 7, json: pathlib.Path | None = None) -> None:
    """Time FedAvg rounds against the matmul rate measured in the same run.

    Args:
      repeats: rounds timed.
      json: file for the printed table.
    """
    from fedjax_priv.bench import bench

    _save(lambda: bench(repeats), json)


def _save(command: Callable[[], list], file: pathlib.Path | None) -> None:
    """Runs a command and keeps the table it printed; a folder that is missing is an error before the work."""
    if file is not None and (file.is_dir() or not file.parent.is_dir()):
        raise FileNotFoundError(f"json must be a file in a folder that exists, got {file}")
    rows = command()
    if file is not None:
        file.write_text(json.dumps([row._asdict() for row in rows], indent=2) + "\n")


def main() -> None:
    """Runs a command; what is wrong with its input is one line on standard error and exit status 2."""
    try:
        tyro.extras.subcommand_cli_from_dict({"demo": _demo, "bench": _bench}, prog="fedjax-priv")
    except (ValueError, OSError) as error:
        print(f"fedjax-priv: {error}", file=sys.stderr)
        sys.exit(2)

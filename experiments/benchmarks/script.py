"""What the benchmarks share: how a call is timed, and a command line that writes a table."""

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax

from fedjax_priv.runs.records import atomic_file
from fedjax_priv.runs.records.manifest import manifest


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a call, and the wall-clock seconds until its arrays are computed."""
    begun = time.perf_counter()
    result = jax.block_until_ready(call())
    return result, time.perf_counter() - begun


def seconds(call: Callable[[], Any]) -> float:
    """Wall-clock seconds of a call, until its arrays are computed."""
    return timed(call)[1]


def medians(calls: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median milliseconds of calls that take turns, by name."""
    times = [{name: seconds(call) for name, call in calls.items()} for _ in range(repeats)]
    return {name: 1e3 * statistics.median(time[name] for time in times) for name in calls}


def main(description: str | None, measure: Callable[..., dict[str, Any]], **options: Any) -> None:
    """Call `measure` with the options of the command line, print its table and write it whole, as JSON with a manifest.

    Args:
      description: for `--help`.
      measure: takes the options by name and returns a table that JSON can hold.
      **options: default by name; an option whose default is a type is required.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON file")
    for name, default in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
        elif isinstance(default, type):
            parser.add_argument(flag, type=default, required=True)
        else:
            parser.add_argument(flag, type=type(default), default=default, help="default: %(default)s")
    given = vars(parser.parse_args())
    out: pathlib.Path = given.pop("out")
    table = measure(**given) | {"manifest": manifest(key=jax.random.key(0), **given)}
    text = json.dumps(table, indent=2)
    print(text)
    out.parent.mkdir(parents=True, exist_ok=True)
    atomic_file.write(out, f"{text}\n".encode())

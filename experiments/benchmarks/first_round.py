"""Seconds that a user on Linux waits for the first round, in processes that take turns.

python -m experiments.benchmarks.first_round --out results/first_round.json [--repeats 5]

`run SYSTEM --rounds 1` (100 clients, handwritten digits) as a process of its own: with an empty folder of programs, on
as many devices as there are cores; again with the programs that it kept; and without kept programs on one device.
`whole` is from the start of Python to its end, `compile` what XLA took for the program of the rounds.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from experiments.benchmarks import script

SYSTEMS = ("fedavg", "wireless", "cdp_fl", "secagg", "sparse_secagg", "fedrep")
ALONE = {"import fedjax_priv": ("-c", "import fedjax_priv"), "--help": ("-m", "fedjax_priv", "--help")}
ONE_DEVICE = {"JAX_NUM_CPU_DEVICES": "1", "JAX_ENABLE_COMPILATION_CACHE": "false"}
COMPILED = re.compile(r"Finished XLA compilation of jit\(runs\) in ([\d.]+) sec")
TIMEOUT = 600.0


def process(arguments: tuple[str, ...], variables: dict[str, str]) -> tuple[float, str]:
    """Wall-clock seconds of a Python process, from its start to its end, and what it wrote to standard error."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=pathlib.Path(__file__).parents[2],
        env={**os.environ, **variables},
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    return time.perf_counter() - begun, done.stderr


def first_round(system: str, variables: dict[str, str]) -> dict[str, float]:
    """What `run` of one round took, and XLA in it, if it compiled the rounds."""
    with tempfile.TemporaryDirectory() as folder:
        run = ("-m", "fedjax_priv", "run", system, "--rounds", "1", "--folder", f"{folder}/run")
        whole, said = process(run, variables | {"JAX_LOG_COMPILES": "1"})
    compiled = COMPILED.search(said)
    return {"whole": whole} | ({"compile": float(compiled[1])} if compiled else {})


def of_system(system: str) -> dict[str, dict[str, float]]:
    """One run of each kind, by kind."""
    with tempfile.TemporaryDirectory() as kept:
        cache = {"XDG_CACHE_HOME": kept}
        first, again = first_round(system, cache), first_round(system, cache)
    if "compile" in again:
        raise RuntimeError(f"{system} compiled its rounds again")
    return {"first": first, "again": again, "one device": first_round(system, ONE_DEVICE)}


def table(repeats: int) -> dict[str, object]:
    """Medians over repeats, in which systems take turns, and all `runs`."""
    alone, runs = [], []
    for _ in range(repeats):
        alone.append({name: process(arguments, {})[0] for name, arguments in ALONE.items()})
        runs.append({system: of_system(system) for system in SYSTEMS})
        print(json.dumps(runs[-1]), flush=True)
    found: dict[str, object] = {"cores": len(os.sched_getaffinity(0)), "alone": medians(alone)}
    for system in SYSTEMS:
        found[system] = {kind: medians([run[system][kind] for run in runs]) for kind in runs[0][system]}
    return found | {"runs": runs}


def medians(each: list[dict[str, float]]) -> dict[str, float]:
    """Of numbers of the same names, by name."""
    return {name: statistics.median(one[name] for one in each) for name in each[0]}


if __name__ == "__main__":
    script.main(__doc__, table, repeats=5)

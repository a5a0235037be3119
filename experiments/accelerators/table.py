"""What each round would cost on an H200 and on TPUs, as compiled here: `results/accelerators/`.

python -m experiments.accelerators.table --compilers .accelerators [--cases fedavg-h200-100,...] [--fast]

Each program is compiled in its own process. Cases that are not named keep their line.
"""

import argparse
import json
import pathlib
import subprocess
import sys
from typing import Any

from experiments.accelerators import environment
from experiments.accelerators.bounds import ASKED, BOUNDS
from experiments.accelerators.programs import CASES
from experiments.accelerators.targets import SECONDS_A_KERNEL, TARGETS, floor
from fedjax_priv.runs.records import atomic_file

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "accelerators"
_HEAD = """\
# One round on accelerators, as compiled without one

Made by `make accelerators-table` (`experiments/accelerators/table.py`); do not edit. No accelerator has run these
programs. Each is compiled for a device that is not there, and counted in its optimized HLO (`hlo.py` there says how).
Clients train the MLP 784-200-10 (`_cnn`: the CNN of McMahan et al.) in three steps of 20 of their 60 images (`_uneven`:
one epoch, in batches of 20, of up to 600 images); 10% drop out. Devices: one H200, one TPU v5e, four TPU v5e (counts of
one device).

- *kernels*: they run one after the other; *asked* is what we want, where it is not reached it is in bold. At
  {micro:g} us for a kernel that waits for another, they alone take *launch*; that time is assumed, not measured, and a
  TPU has no such launches.
- *floor*: no program with these counts is faster: bytes over bandwidth, flops of products over their peak (of bytes,
  another peak), on an H200 also other operations over the rate of its integer lanes; the largest of them, and which it
  is.
- *unknown loops*: loops whose length the compiler does not know, each counted as one turn, so the counts of its row are
  too small. None is asked, but of `_uneven` three: of all clients, of a quarter and of a 16th.

{sources}

"""
_COLUMNS = (
    "system", "device", "clients", "kernels", "asked", "launch, ms", "unknown loops", "GB moved", "GFLOP in products",
    "G other operations", "floor, ms", "by", "temporary GB",
)  # fmt: skip


def measured(case: str, home: pathlib.Path, *options: str) -> dict[str, Any]:
    """What `programs.compiled` says of a case.

    Raises:
      RuntimeError: the program does not compile.
    """
    return printed("programs", home, case, *options)


def printed(module: str, home: pathlib.Path, *arguments: str) -> dict[str, Any]:
    """What a module of this folder prints, in a process that has the compilers.

    Raises:
      RuntimeError: it fails.
    """
    command = [sys.executable, "-m", f"experiments.accelerators.{module}", *arguments]
    done = subprocess.run(command, env=environment.variables(home), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} does not compile: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def read() -> dict[str, dict[str, Any]]:
    """The committed rows by case."""
    path = RESULTS / "programs.json"
    return json.loads(path.read_text()) if path.exists() else {}


def page(rows: dict[str, dict[str, Any]]) -> str:
    """The rows as a page."""
    sources = "\n".join(f"- {source}." for source in dict.fromkeys(target.source for target in TARGETS.values()))
    lines = ["| " + " | ".join(_COLUMNS) + " |", "| " + " | ".join("---" for _ in _COLUMNS) + " |"]
    lines += [_line(case, rows[case]) for case in sorted(rows, key=CASES.index)]
    head = _HEAD.format(micro=SECONDS_A_KERNEL * 1e6, sources=sources)
    missing = ", ".join(f"`{case}`" for case in CASES if case not in rows)
    return head + "\n".join(lines) + "\n" + (f"\nNot compiled yet: {missing}.\n" if missing else "")


def _line(case: str, row: dict[str, Any]) -> str:
    system, name, clients = case.split("-")
    target, asked = TARGETS[name], ASKED.get(case)
    missed = asked is not None and row["kernels"] > asked
    seconds, by = floor(target, row["bytes"], row["flops"], row["operations"], row.get("byte_flops", 0))
    cells = [
        system, name, f"{int(clients):,}", f"**{row['kernels']:,}**" if missed else f"{row['kernels']:,}",
        "" if asked is None else f"{asked:,}",
        f"{1e3 * SECONDS_A_KERNEL * row['kernels']:.3g}" if name == "h200" else "",
        f"**{row['loops']}**" if row["loops"] > BOUNDS[case].loops else f"{row['loops']}",
        f"{row['bytes'] / 1e9:.3g}", f"{row['flops'] / 1e9:.3g}", f"{row['operations'] / 1e9:.3g}",
        f"{1e3 * seconds:.3g}", by, f"{row['temporary_bytes'] / 1e9:.3g}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def write(rows: dict[str, dict[str, Any]]) -> None:
    """Write the rows and their page, each whole or not at all."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    ordered = {case: rows[case] for case in sorted(rows, key=CASES.index)}
    atomic_file.write(RESULTS / "programs.json", f"{json.dumps(ordered, indent=1)}\n".encode())
    atomic_file.write(RESULTS / "README.md", page(ordered).encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compilers", type=pathlib.Path, required=True, help="folder they are in, or are put into")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--fast", action="store_true", help="the compiler's least effort")
    given = parser.parse_args()
    try:
        home = environment.made(given.compilers)
    except environment.NotMade as error:
        raise SystemExit(str(error)) from error
    for case in given.cases.split(","):
        row = measured(case, home, *(["--fast"] if given.fast else []))
        write(read() | {case: row | {"effort": "least" if given.fast else "default"}})
        print(case, json.dumps(row), flush=True)

"""The table of a benchmark of peers: `peers.json` with every number, `peers.md` to read."""

import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess

from fedjax_priv.runs.records import atomic_file

OURS = "fedjax_priv"


def write(folder: pathlib.Path, rows: list[dict], matmul: list[float], repository: pathlib.Path) -> None:
    """Writes both files anew, each whole or not at all.

    Args:
      folder: where to.
      rows: `work`, `peer`, `runs` (what each process printed), and `command` or `failed` where there is one.
      matmul: GFLOP/s measured before each repeat.
      repository: whose commit is named.
    """
    rate = statistics.median(matmul)
    lines = [summary(row, rows, rate) for row in rows]
    where = machine(repository) | {"matmul_gflops": matmul}
    numbers = json.dumps({"machine": where, "summary": lines, "rows": rows}, indent=1)
    atomic_file.write(folder / "peers.json", numbers.encode())
    atomic_file.write(folder / "peers.md", _markdown(where, lines, rate).encode())


def machine(repository: pathlib.Path) -> dict:
    """Where and when, and the commit that is run; `load` is the mean number of waiting processes of the last minute."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(repository),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
    }


def summary(row: dict, rows: list[dict], matmul_gflops: float) -> dict:
    """Medians of a row; the ratio to ours is the median of those of the repeats, whose noise is shared."""
    line = {key: row[key] for key in ("work", "peer", "command", "failed") if key in row}
    if not row["runs"]:
        return line
    per_run = [statistics.median(run["seconds"]) for run in row["runs"]]
    seconds = statistics.median(per_run)
    ours = next((r for r in rows if (r["work"], r["peer"]) == (row["work"], OURS)), {"runs": []})
    ratios = [mine / statistics.median(run["seconds"]) for mine, run in zip(per_run, ours["runs"], strict=False)]
    return line | {
        "seconds": seconds,
        "least": min(per_run),
        "most": max(per_run),
        "ratio": statistics.median(ratios) if ratios else None,
        "of_matmul": row["runs"][0]["flops"] / seconds / matmul_gflops / 1e9,
        "start_seconds": statistics.median(run["start_seconds"] for run in row["runs"]),
        "mib": max(run["mib"] for run in row["runs"]),
        "error": max(run["error"] for run in row["runs"]),
        "same_input": len({run["input"] for r in rows if r["work"] == row["work"] for run in r["runs"]}) == 1,
        "versions": row["runs"][-1]["versions"],
        "repeats": len(per_run),
    }


def _markdown(machine: dict, lines: list[dict], matmul_gflops: float) -> str:
    text = [
        "# The same rounds of FedAvg in other libraries",
        "",
        f"{machine['date']}, commit {machine['commit']}, {machine['cpu']}, {machine['cores']} cores, "
        f"Python {machine['python']}, float32 matmul {matmul_gflops:.0f} GFLOP/s.",
        "",
        "Seconds of a warm round: the median over repeats of a process's median, and the least and the most. "
        "Ratio: to fedjax_priv in the same repeat, above 1 is slower than ours. "
        "Start: until the first timed round, checks and compiling included. "
        "Memory: sum of the peaks of all processes. "
        "Error: largest difference of a parameter from the float64 reference in the check.",
    ]
    for work in dict.fromkeys(line["work"] for line in lines):
        text += ["", f"## {work}", "", _HEADINGS, _RULE]
        text += [_cells(line) for line in lines if line["work"] == work]
        if not all(line.get("same_input", True) for line in lines if line["work"] == work):
            text += ["", "**Not all peers had the same input.**"]
    commands = [f"- {line['work']} {line['peer']}: `{line['command']}`" for line in lines if "command" in line]
    text += ["", "## Commands", "", "From the root of the repository, $ENVS the folder of environments:", "", *commands]
    return "\n".join(text) + "\n"


_HEADINGS = "| peer | seconds | least - most | ratio | of matmul | start, s | memory, MiB | error | versions |"
_RULE = "|---|---|---|---|---|---|---|---|---|"


def _cells(line: dict) -> str:
    if "seconds" not in line:
        return f"| {line['peer']} | {line.get('failed', 'not run yet')} |  |  |  |  |  |  |  |"
    ratio = "" if line["ratio"] is None else f"{line['ratio']:.2f}"
    versions = ", ".join(f"{name} {version}" for name, version in line["versions"].items())
    failed = f" (then failed: {line['failed']})" if "failed" in line else ""
    return (
        f"| {line['peer']}{failed} | {line['seconds']:.3f} | {line['least']:.3f} - {line['most']:.3f} | {ratio} "
        f"| {line['of_matmul']:.0%} | {line['start_seconds']:.1f} | {line['mib']:.0f} | {line['error']:.0e} "
        f"| {versions} |"
    )


def _commit(repository: pathlib.Path) -> str:
    def git(*args: str) -> str:
        return subprocess.run(["git", "-C", str(repository), *args], capture_output=True, text=True).stdout.strip()

    return (git("rev-parse", "--short", "HEAD") or "unknown") + (", changed" if git("status", "--porcelain") else "")


def _cpu() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())

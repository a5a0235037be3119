"""The table of the turns of Flower and fedjax_priv: `lr_mnist.json` with every number, `lr_mnist.md` to read."""

import json
import pathlib
import statistics
from typing import Any

from fedjax_priv.runs.records import atomic_file

PEERS = {
    "ours": "fedjax_priv",
    "flower": "Flower, a supernode per device",
    "flower_few": "Flower, a supernode per place in the cohort",
}
FILE = pathlib.Path(__file__).parents[2] / "results" / "peers" / "lr_mnist.json"
"""Of the repository."""


def write(folder: pathlib.Path, made: dict[str, Any]) -> None:
    """Both files anew, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    file, page = folder / FILE.name, f"# LR on MNIST by Flower and by fedjax_priv\n\n{table(made)}\n"
    atomic_file.write(file, f"{json.dumps(made, indent=1)}\n".encode())
    atomic_file.write(file.with_suffix(".md"), page.encode())


def committed(file: pathlib.Path = FILE) -> str:
    """The table of the repository's numbers, or that there are none."""
    return table(json.loads(file.read_text())) if file.exists() else "Not run on a quiet machine yet."


def table(made: dict[str, Any]) -> str:
    """Where and how it was run, and a row for each kind of outputs and library: medians over repeats."""
    on, config, runs = made["machine"], made["config"], made["runs"]
    lines = [
        f"{on['date'][:10]}, commit {on['commit']}, {on['cpu']}, {on['cores']} cores, load {on['load']:.1f} before; "
        f"{config['dataset']}, {config['devices']:,} devices, {config['cohort']} a round, {config['rounds']} rounds, "
        f"repeats: {len(runs) // len(config['outputs'])}. Reading, standardising and splitting took "
        f"{made['prepare_seconds']:.1f} s and is in neither.",
        "",
        "| cross-entropy of | library | seconds | least - most | of these start | s per round "
        "| times ours: all, per round | final accuracy, % | apart | versions |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for outputs in dict.fromkeys(run["outputs"] for run in runs):
        mine = [run for run in runs if run["outputs"] == outputs]
        lines += [_row(outputs, peer, mine) for peer in PEERS]
    return "\n".join(lines)


def _row(outputs: str, peer: str, runs: list[dict[str, Any]]) -> str:
    of = lambda name: [run[peer][name] for run in runs]
    times = [
        statistics.median(run[peer][name] / run["ours"][name] for run in runs) for name in ("seconds", "round_seconds")
    ]
    median = {name: statistics.median(of(name)) for name in ("seconds", "start_seconds", "round_seconds")}
    accuracy = " or ".join(dict.fromkeys(f"{one[-1]:.2f}" for one in of("accuracy")))
    versions = ", ".join(f"{name} {version}" for name, version in runs[-1][peer]["versions"].items())
    apart = f"{max(of('difference')):.0e}"
    cells = (
        {"sigmoid": "the sigmoid of scores", "linear": "scores"}[outputs], PEERS[peer], f"{median['seconds']:.1f}",
        f"{min(of('seconds')):.1f} - {max(of('seconds')):.1f}", f"{median['start_seconds']:.1f}",
        f"{median['round_seconds']:.4f}", f"{times[0]:.1f}, {times[1]:.1f}" if peer != "ours" else "", accuracy,
        apart if peer != "ours" else "", versions,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"

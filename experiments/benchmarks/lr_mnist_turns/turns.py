"""The card `lr_mnist` by Flower's simulation and by ours, in turns: the same split, participants and batches.

    python -m experiments.benchmarks.lr_mnist_turns.turns --out experiments/results/peers

Flower runs in its pinned environment, trains in NumPy and is given what our run drew, so that both must end with the
same parameters; a run that does not stops the benchmark. MNIST is read as `fedjax_priv.data.mnist` reads it.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from experiments.anchors import lr_mnist
from experiments.benchmarks.environments import python_of
from experiments.benchmarks.lr_mnist_turns import numpy_training
from experiments.benchmarks.lr_mnist_turns.table import table, write
from experiments.benchmarks.processes import run_json
from experiments.benchmarks.report import machine
from experiments.problem import Task, load
from fedjax_priv import models

HERE = pathlib.Path(__file__).parent
REPOSITORY = HERE.parents[2]
TOLERANCE = 1e-4
"""Largest difference of a parameter at the end; initial parameters are at most 0.036."""


def main() -> None:
    args = _arguments()
    flower = python_of(HERE.parent / "requirements" / "flower.txt", args.envs.expanduser())
    config = lr_mnist.Config(dataset=args.dataset, rounds=args.rounds)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        prepare(config, pathlib.Path(folder))
        made = {"machine": machine(REPOSITORY), "config": config._asdict(), "runs": []}
        made["prepare_seconds"] = time.perf_counter() - begun
        for repeat in range(args.repeats):
            for outputs in config.outputs:
                found = turn(config, outputs, pathlib.Path(folder), flower, args.timeout)
                made["runs"].append({"repeat": repeat, "outputs": outputs} | found)
                write(args.out, made)
    print(table(made))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="FLUTE's linear model by Flower and by fedjax_priv.")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for lr_mnist.json and lr_mnist.md")
    parser.add_argument("--rounds", type=int, default=100, help="at least 2")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each library and kind of outputs")
    parser.add_argument("--dataset", choices=("mnist", "digits"), default="mnist")
    parser.add_argument("--timeout", type=float, default=300, help="seconds after which a process is given up")
    parser.add_argument(
        "--envs", type=pathlib.Path, default=pathlib.Path("~/.cache/fedjax_priv_peers"), help="folder of environments"
    )
    return parser.parse_args()


def prepare(config: lr_mnist.Config, folder: pathlib.Path) -> None:
    """Writes the split and the initial parameters of the card's first seed."""
    x, y = lr_mnist.standardised(load(Task(config.dataset)))  # pyright: ignore[reportArgumentType]
    of = lr_mnist.devices_of(config, x, y, config.seed)
    mine = [[part[0, :count] for part in of.pool.fetch(np.array([i]))] for i, count in enumerate(of.pool.count)]
    images, labels = (np.concatenate(parts) for parts in zip(*mine, strict=True))
    params = models.from_flax(lr_mnist.Network(lr_mnist.LINEAR), x.shape[1:]).init(lr_mnist.key_of(config, config.seed))
    numpy_training.write(
        folder, x=images, y=labels, start=np.append(0, of.pool.count.cumsum()), x_test=of.x_test, y_test=of.y_test,
        initial=np.asarray(ravel_pytree(params)[0]),
    )  # fmt: skip


def turn(
    config: lr_mnist.Config, outputs: str, folder: pathlib.Path, flower: pathlib.Path, timeout: float
) -> dict[str, Any]:
    """A process of each, and the largest difference of a final parameter.

    Raises:
      Failed: a process ended without a result.
      ValueError: the runs were not the same.
    """
    how = config._asdict() | {"outputs": outputs}
    script = str((HERE / "flower_run.py").relative_to(REPOSITORY))
    programs = {"ours": [sys.executable, "-m", "experiments.benchmarks.lr_mnist_turns.our_run"], "flower": [str(flower), script]}
    found: dict[str, Any] = {}
    for name, program in programs.items():
        told = json.dumps(how | {"save": f"{name}.npy"})
        paths = {"PYTHONPATH": str(REPOSITORY if name == "ours" else HERE)}
        found[name] = run_json([*program, str(folder), told, str(time.time())], REPOSITORY, paths, timeout)
        print(outputs, name, f"{found[name]['seconds']:.1f} s", flush=True)
    found["difference"] = float(abs(np.load(folder / "ours.npy") - np.load(folder / "flower.npy")).max())
    if not found["difference"] < TOLERANCE:
        raise ValueError(f"both must do the same, but a parameter ends {found['difference']:.1e} apart")
    return found


if __name__ == "__main__":
    main()

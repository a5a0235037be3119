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
"""Largest difference of a parameter at the end; 100 rounds move parameters by about 0.1."""


def main() -> None:
    args = _arguments()
    flower = python_of(HERE.parent / "requirements" / "flower.txt", args.envs.expanduser())
    config = lr_mnist.Config(rounds=args.rounds)
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
    parser.add_argument("--timeout", type=float, default=300, help="seconds after which a process is given up")
    parser.add_argument(
        "--envs", type=pathlib.Path, default=pathlib.Path("~/.cache/fedjax_priv_peers"), help="folder of environments"
    )
    return parser.parse_args()


def prepare(config: lr_mnist.Config, folder: pathlib.Path) -> None:
    """Writes the split and the initial parameters of the card's first seed."""
    x, y = lr_mnist.standardised(load(Task(config.dataset)))  # pyright: ignore[reportArgumentType]
    train, test = lr_mnist.split(config, y, config.seed)
    mine, rest = np.concatenate(train), np.concatenate(test)
    params = models.from_flax(lr_mnist.Network(lr_mnist.LINEAR), x.shape[1:]).init(lr_mnist.key_of(config, config.seed))
    numpy_training.write(
        folder, x=x[mine], y=y[mine], start=np.cumsum([0, *map(len, train)]), x_test=x[rest], y_test=y[rest],
        initial=np.asarray(ravel_pytree(params)[0]),
    )  # fmt: skip


def turn(
    config: lr_mnist.Config, outputs: str, folder: pathlib.Path, flower: pathlib.Path, timeout: float
) -> dict[str, Any]:
    """A process of each peer of the table; those of Flower with the largest difference of a final parameter from ours.

    Raises:
      Failed: a process ended without a result.
      ValueError: the runs were not the same.
    """
    how = config._asdict() | {"outputs": outputs}
    ours = [sys.executable, "-m", "experiments.benchmarks.lr_mnist_turns.our_run"]
    theirs = [str(flower), str((HERE / "flower_run.py").relative_to(REPOSITORY))]
    supernodes = {"ours": 0, "flower": config.devices, "flower_few": config.cohort}
    found: dict[str, Any] = {}
    for name, nodes in supernodes.items():
        told = json.dumps(how | {"supernodes": nodes, "save": f"{name}.npy"})
        command = [*(theirs if nodes else ours), str(folder), told, str(time.time())]
        found[name] = run_json(command, REPOSITORY, {"PYTHONPATH": str(HERE if nodes else REPOSITORY)}, timeout)
        print(outputs, name, f"{found[name]['seconds']:.1f} s", flush=True)
        apart = float(abs(np.load(folder / f"{name}.npy") - np.load(folder / "ours.npy")).max())
        found[name]["difference"] = apart
        if not apart < TOLERANCE:
            raise ValueError(f"all must do the same, but a parameter of {name} ends {apart:.1e} from ours")
    return found


if __name__ == "__main__":
    main()

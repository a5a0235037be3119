"""Seconds of the robustness grid, and of a sample of its cells run by ByzFL's own benchmark.

python -m experiments.benchmarks.grid --mnist FOLDER --out results/grid.json [--every-nth 4] [--steps 60]

FOLDER holds MNIST as torchvision wants it (`MNIST/raw`); ours is read from `$TFDS_DATA_DIR`. ByzFL runs a cell on each
core. The sample holds every rule once alone and once behind nearest-neighbour mixing, with attacks and heterogeneities
in turn; `--every-nth n` runs only every n-th cell of it. Our seconds include compilation.
"""

import copy
import importlib
import itertools
import multiprocessing
import os
import pathlib
import tempfile
from typing import Any

from experiments.benchmarks.script import main, seconds, timed
from experiments.fedrep import grid
from experiments.fedrep.cells import HONEST

RULES = {
    "mean": "Average", "median": "Median", "trimmed mean": "TrMean", "geometric median": "GeometricMedian",
    "Krum": "Krum", "multi-Krum": "MultiKrum", "centered clipping": "CenteredClipping", "MDA": "MDA",
    "MoNNA": "MoNNA", "Meamed": "Meamed", "CAF": "CAF", "SMEA": "SMEA",
}  # fmt: skip
ATTACKS = {
    "sign flip": "SignFlipping", "FoE": "InnerProductManipulation", "ALIE": "ALittleIsEnough",
    "optimal FoE": "Optimal_InnerProductManipulation", "optimal ALIE": "Optimal_ALittleIsEnough", "mimic": "Mimic",
    "Gaussian": "Gaussian", "infinite": "Inf", "label flip": "LabelFlipping",
}  # fmt: skip


def cells(config: grid.Config, folder: str, data: pathlib.Path) -> list[dict]:
    """The sample, as ByzFL's training function takes it."""
    setting, f = config.setting, config.setting.num_byzantine
    attacks = itertools.cycle(name for name in config.attacks if name != HONEST)
    gammas, found = itertools.cycle(setting.gammas), []
    for rule, mixed in itertools.product(config.rules, (False, True)):
        found.append({
            "benchmark_config": {
                "training_algorithm": {"name": "DSGD", "parameters": {}}, "nb_steps": config.rounds, "device": "cpu",
                "training_seed": 0, "nb_training_seeds": 1, "nb_honest_clients": setting.num_honest, "f": f,
                "tolerated_f": f, "nb_workers": setting.num_clients, "size_train_set": setting.training_fraction,
                "data_distribution_seed": 0, "nb_data_distribution_seeds": 1, "set_honest_clients_as_clients": False,
                "data_distribution": {"name": "gamma_similarity_niid", "distribution_parameter": next(gammas)},
            },
            "model": {
                "name": "logreg_mnist", "dataset_name": "mnist", "nb_labels": 10, "loss": "NLLLoss",
                "learning_rate": config.learning_rates[0], "learning_rate_decay": 1.0, "milestones": [],
            },
            "aggregator": {"name": RULES[rule], "parameters": {"f": f}},
            "pre_aggregators": [{"name": "NNM", "parameters": {"f": f}}] if mixed else [],
            "honest_clients": {
                "momentum": setting.momentum, "weight_decay": setting.weight_decay, "batch_size": setting.batch_size,
            },
            "attack": {"name": ATTACKS[next(attacks)], "parameters": {}},
            "evaluation_and_results": {
                "evaluation_delta": config.every, "batch_size_evaluation": 128, "evaluate_on_test": True,
                "store_per_client_metrics": False, "store_models": False, "data_folder": str(data),
                "results_directory": folder,
            },
        })  # fmt: skip
    return found


def by_byzfl(cell: dict) -> None:
    importlib.import_module("byzfl.benchmark.train").start_training(cell)


def table(mnist: pathlib.Path, every_nth: int, steps: int) -> dict[str, Any]:
    """Seconds of the sample and of the grid, one after the other; accuracy is taken three times in a run."""
    config = grid.SCALES["cpu"]
    rates = config.learning_rates[:1]
    config = config._replace(learning_rates=rates, repeats=1, rounds=steps, every=steps // 2)
    workers = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(workers) as pool:
        sample = cells(config, folder, mnist)[::every_nth]
        theirs = seconds(lambda: pool.map(by_byzfl, copy.deepcopy(sample), chunksize=1))
    print(f"ByzFL: {len(sample)} cells in {theirs:.0f} s", flush=True)
    runs, ours = timed(lambda: grid.train(config))
    number = runs.attrs["runs"]
    return {
        "byzfl_cells": len(sample), "byzfl_seconds": theirs, "byzfl_seconds_a_cell": theirs / len(sample),
        "cells": number, "seconds": ours, "seconds_a_cell": ours / number, "programs": runs.attrs["programs"],
        "times_faster": theirs / len(sample) * number / ours, "processes": workers,
    }  # fmt: skip


if __name__ == "__main__":
    main(__doc__, table, mnist=pathlib.Path, every_nth=1, steps=60)

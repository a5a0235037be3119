"""Seconds of the robustness grid, beside a sample of the same cells run by ByzFL's own benchmark.

python -m experiments.benchmarks.grid --mnist FOLDER --out results/grid.json

FOLDER holds MNIST as torchvision wants it (`MNIST/raw`); ours is read from `$TFDS_DATA_DIR`. ByzFL runs two cells at a
time, as many as there are cores here; a sample holds every rule, alone and behind nearest-neighbour mixing, once, and
attacks and heterogeneities in turn. What our grid takes is everything: the compilation, too.
"""

import argparse
import copy
import importlib
import itertools
import json
import multiprocessing
import os
import pathlib
import tempfile
import time

import jax

from experiments.fedrep import grid
from experiments.fedrep.cells import HONEST
from fedjax_priv.runs.records.manifest import manifest

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


def main() -> None:
    """Run the sample and the grid one after the other and write what they took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--mnist", type=pathlib.Path, required=True)
    parser.add_argument("--every-nth", type=int, default=1, help="run only every n-th cell of the sample")
    parser.add_argument("--steps", type=int, default=60, help="of every run; accuracy is taken three times")
    arguments = parser.parse_args()
    rates, steps = grid.SCALES["cpu"].learning_rates[:1], arguments.steps
    config = grid.SCALES["cpu"]._replace(learning_rates=rates, repeats=1, rounds=steps, every=steps // 2)
    workers = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(workers) as pool:
        sample = cells(config, folder, arguments.mnist)[:: arguments.every_nth]
        begun = time.perf_counter()
        pool.map(by_byzfl, copy.deepcopy(sample), chunksize=1)
        theirs = time.perf_counter() - begun
    print(f"ByzFL: {len(sample)} cells in {theirs:.0f} s", flush=True)
    begun = time.perf_counter()
    runs = grid.train(config)
    ours = time.perf_counter() - begun
    number = runs.attrs["runs"]
    table = {
        "byzfl_cells": len(sample), "byzfl_seconds": theirs, "byzfl_seconds_a_cell": theirs / len(sample),
        "cells": number, "seconds": ours, "seconds_a_cell": ours / number, "programs": runs.attrs["programs"],
        "times_faster": theirs / len(sample) * number / ours, "steps": config.rounds, "processes": workers,
        "manifest": manifest(key=jax.random.key(0)),
    }  # fmt: skip
    print(json.dumps(table, indent=2))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()

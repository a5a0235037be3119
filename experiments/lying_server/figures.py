"""What a server that lies reads from a secure sum."""

from experiments.harness import Experiment
from experiments.lying_server.setting import Config
from experiments.lying_server.three_lies import judge, run
from experiments.problem import Task

FIGURES = {
    "three_lies": Experiment(
        "", "What a server reads that lies: lists, models, repeated rounds, their price, and detectors",
        {
            "quick": Config(
                Task("digits", "mlp16"), num_clients=8, threshold=6, colluding=(0, 2), trials=8, populations=(40,),
                attempts=15, runs=12,
            ),
            "cpu": Config(),
            "paper": Config(Task("mnist", "mlp64")),
        },
        run, judge,
    )
}  # fmt: skip

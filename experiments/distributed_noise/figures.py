"""Sums of few bits with noise of the clients: mean estimation."""

from experiments.distributed_noise.mean_estimation import Config, judge, run
from experiments.harness import Experiment

PAPER = Config()
FIGURES = {
    "mean_estimation": Experiment(
        "", "Means of vectors on a sphere from sums of 10 to 16 bits, by eps: discrete Gaussian and Skellam noise",
        {
            "quick": PAPER._replace(clients=(100,), bits=(10, 16), epsilons=(0.75,), repeats=20),
            "cpu": PAPER._replace(bits=(10, 16), epsilons=(0.75, 2.0, 6.0), repeats=30),
            "paper": PAPER,
        },
        run, judge,
    )
}  # fmt: skip

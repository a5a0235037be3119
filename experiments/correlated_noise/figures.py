"""Results of ours on noise that is correlated over rounds."""

from experiments.correlated_noise import error
from experiments.harness import Experiment

FIGURES = {
    "error": Experiment(
        "", "Noise in the model by round, at equal privacy, for all factorizations: closed forms and streams",
        {
            "quick": error.Config(rounds=128, separation=32, bands=8, buffers=2, coordinates=500),
            "cpu": error.Config(),
            "paper": error.Config(rounds=2048, coordinates=4000),
        }, error.run, error.judge,
    )
}  # fmt: skip

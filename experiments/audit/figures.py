"""Audits, as experiments."""

from experiments.audit import private_training
from experiments.audit.all_systems import Config, run
from experiments.harness import Experiment

FIGURES = {
    "all_systems": Experiment(
        "", "Every system of the four papers: the eps claimed, the eps proved, and the least eps that an audit shows",
        {
            "quick": Config(names=("FedAvg", "CDP-FL"), trials=2000),
            "cpu": Config(),
            "paper": Config(trials=100_000),
        }, run,
    ),
    "private_training": Experiment(
        "", "Private training: sound systems stand their audit, and broken twins of them do not",
        {
            "quick": private_training.Config(
                systems=("DP-FTRL, bands",), twins=("separation not kept",), trials=1000, many_rounds=1000
            ),
            "cpu": private_training.Config(),
            "paper": private_training.Config(trials=20_000, many_rounds=4000),
        }, private_training.run,
    ),
}  # fmt: skip

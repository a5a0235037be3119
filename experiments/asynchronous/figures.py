"""Asynchronous rounds in virtual time."""

from experiments.asynchronous import concurrency
from experiments.asynchronous.virtual_time import Config, judge, run
from experiments.harness import Experiment

PAPER = Config()
BY_CONCURRENCY = concurrency.Config()
FIGURES = {
    "virtual_time": Experiment(
        "", "Accuracy against virtual time, FedBuff and FedAvg, by the spread of client speeds",
        {
            "quick": PAPER._replace(rounds=30, repeats=6),
            "cpu": PAPER._replace(rounds=60),
            "paper": PAPER,
        },
        run, judge,
    ),
    "concurrency": Experiment(
        "", "Accuracy against virtual time, FedBuff and FedAvg, by how many train and by the spread of speeds",
        {
            "quick": BY_CONCURRENCY._replace(
                concurrencies=(10, 40), spreads=(0.0, 1.0), flushes=70, rounds=25, repeats=6
            ),
            "cpu": BY_CONCURRENCY._replace(flushes=160, rounds=40, repeats=6),
            "paper": BY_CONCURRENCY,
        },
        concurrency.run, concurrency.judge,
    ),
}  # fmt: skip

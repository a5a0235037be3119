"""The composition atlas, as a table of one experiment."""

from experiments.atlas import atlas
from experiments.atlas.table import table
from experiments.atlas.training import HONEST, Config
from experiments.harness import Experiment
from experiments.problem import Task

FIGURES = {
    "atlas": Experiment(
        "", "What composes: every stack of transport, rule, noise, compression and dropout, run or refused",
        {
            "quick": Config(
                transports=("plain", "buckets of 2"), noises=("none", "Skellam"), compressions=("dense",),
                rules=("mean", "median", "trimmed mean"), attacks=(HONEST, "IPM"), dropouts=(0.0, 0.3), rounds=15,
                repeats=2, trials=2000,
            ),
            "cpu": Config(),
            "paper": Config(Task("mnist", pool=2), rounds=200),
        }, atlas.run, atlas.judge, table=table,
    )
}  # fmt: skip

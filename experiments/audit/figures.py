"""The audit, as a table of one experiment."""

from experiments.audit import all_systems
from experiments.harness import Experiment

FIGURES = {
    "all_systems": Experiment(
        "", "Every system of the four papers: the eps claimed, the eps proved, and the least eps that an audit shows",
        all_systems.SCALES, all_systems.run,
    )
}  # fmt: skip

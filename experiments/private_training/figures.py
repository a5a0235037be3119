"""The printed rows of private training, one card each, and all private systems at equal eps."""

from collections.abc import Mapping
from typing import Any

from experiments.harness import Experiment
from experiments.private_training import accuracy, equal_epsilon
from experiments.private_training.accuracy import Config
from experiments.private_training.printed import OPACUS, TF_PRIVACY, TRAMER_BONEH, Row
from experiments.private_training.problem import Setting
from experiments.problem import Task


def scales(row: Row, setting: Setting, seeds: int) -> Mapping[str, Any]:
    """At `cpu` and `paper` the row as it is printed; at `quick` a linear model on small images."""
    row, printed = row._replace(statistics=None), row
    quick = row._replace(batch=144, steps=80, rate=1.0, clip=1.0, momentum=0.0)
    return {
        "quick": Config(printed, quick, Setting("digits", "softmax", "keras"), 2, 4),
        "cpu": Config(printed, row, setting, seeds),
        "paper": Config(printed, row, setting, max(10, row.runs)),
    }


def cards(name: str, source: str, rows: Mapping[str, Row], setting: Setting) -> dict[str, Experiment]:
    """A card for each row, three seeds at `cpu`."""
    return {
        f"{name}_eps_{key}": Experiment(
            f"{source}, eps = {row.epsilon}", "DP-SGD on MNIST as DP-FedAvg, eps and accuracy",
            scales(row, setting, 3), accuracy.run, accuracy.judge, accuracy.differs,
        )
        for key, row in rows.items()
    }  # fmt: skip


_DIGITS, _MNIST = Task("digits"), Task("mnist")
EQUAL = {
    "quick": equal_epsilon.Config(_DIGITS, 50, 10, 5, epsilons=(2.0, 16.0), repeats=2),
    "cpu": equal_epsilon.Config(_MNIST, 300, 30, 10, epsilons=(1.0, 4.0, 16.0), delta=1e-4),
    "paper": equal_epsilon.Config(_MNIST, 1000, 100, 10, delta=1e-5, repeats=5),
}
FIGURES = {
    "equal_epsilon": Experiment(
        "", "Private systems at equal proved eps", EQUAL, equal_epsilon.run, equal_epsilon.judge
    ),
    **cards("opacus", "Opacus", OPACUS, Setting()),
    **cards("tf_privacy", "TensorFlow Privacy", TF_PRIVACY, Setting(start="keras")),
    **cards("scattering", "Tramer and Boneh", {"3": TRAMER_BONEH}, Setting(network="scattering")),
}

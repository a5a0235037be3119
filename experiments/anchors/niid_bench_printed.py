"""What NIID-Bench's baseline in Flower prints of MNIST, and the splits."""

from typing import Any

from experiments.published import Printed
from fedjax_priv.data.client_arrays import Partition

SPLITS: dict[str, tuple[Partition, dict[str, Any]]] = {
    "IID": ("iid", {}),
    "Dir .5": ("dirichlet", {"concentration": 0.5, "min_size": 10}),
    "#C = 1": ("few_labels", {"labels_per_client": 1}),
    "#C = 2": ("few_labels", {"labels_per_client": 2}),
    "#C = 3": ("few_labels", {"labels_per_client": 3}),
}
PRINTED = {
    "FedAvg": {
        "IID": Printed(99.09, 0.05, 3), "Dir .5": Printed(98.89, 0.07, 3), "#C = 1": Printed(19.33, 11.82, 3),
        "#C = 2": Printed(96.86, 0.30, 3), "#C = 3": Printed(97.86, 0.34, 3),
    },
    "FedProx": {
        "IID": Printed(99.16, 0.04, 3), "Dir .5": Printed(99.02, 0.02, 3), "#C = 1": Printed(51.79, 26.75, 3),
        "#C = 2": Printed(96.85, 0.15, 3), "#C = 3": Printed(97.85, 0.06, 3),
    },
    "FedNova": {
        "IID": Printed(99.05, 0.06, 3), "Dir .5": Printed(98.03, 0.06, 3), "#C = 1": Printed(52.58, 14.08, 3),
        "#C = 2": Printed(96.65, 0.39, 3), "#C = 3": Printed(97.62, 0.07, 3),
    },
    "SCAFFOLD": {
        "IID": Printed(99.06, 0.15, 3), "Dir .5": Printed(99.07, 0.06, 3), "#C = 1": Printed(9.93, 0.12, 3),
        "#C = 2": Printed(96.92, 0.52, 3), "#C = 3": Printed(97.91, 0.10, 3),
    },
}  # fmt: skip
"""Percent. How many seeds theirs are is not printed: three are assumed."""

"""Milliseconds of a round of FedSGD whose gradients are computed piece by piece, and of one that pads all clients.

python -m experiments.benchmarks.full_gradients --out results/full_gradients.json [--repeats 9]

The two take turns. Images are noise, 28x28. The first population has 1,000 clients of lognormal sizes, at most 600
samples and 29 on average; in the second, 100 clients have 600 samples each.
"""

from collections.abc import Callable

import numpy as np

from experiments.benchmarks import script
from experiments.benchmarks.two_settings import compiled_rounds, images_of_noise
from experiments.benchmarks.uneven_clients import LINEAR, NETWORK, SIZES
from fedjax_priv import clients, losses, systems
from fedjax_priv.base import Model
from fedjax_priv.clients import full_gradients

EVEN = np.full(100, 600)
CASES = {
    "softmax regression, 1,000 uneven clients": (LINEAR, SIZES),
    "softmax regression, 100 even clients": (LINEAR, EVEN),
    "MLP 784-200-10, 1,000 uneven clients": (NETWORK, SIZES),
    "MLP 784-200-10, 100 even clients": (NETWORK, EVEN),
}


def rounds(model: Model, sizes: np.ndarray) -> dict[str, Callable[[], object]]:
    """Calls of compiled rounds on one device."""
    make = lambda: systems.fedavg(clients.fedsgd(losses.softmax_cross_entropy(model)), mesh=None)
    most = {"in pieces": full_gradients.MOST, "padded": 1}
    return compiled_rounds(make, model, images_of_noise(sizes), full_gradients, "MOST", most)


def table(repeats: int) -> dict[str, object]:
    """Medians by case."""
    return {name: script.medians(rounds(*case), repeats) for name, case in CASES.items()}


if __name__ == "__main__":
    script.main(__doc__, table, repeats=9)

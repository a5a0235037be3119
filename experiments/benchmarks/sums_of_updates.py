"""Milliseconds of a round of DP-FedAvg whose clients take one step: with a row for each client, and with sums alone.

python -m experiments.benchmarks.sums_of_updates --out results/sums_of_updates.json [--repeats 9]

The two take turns, on one device. Images are noise, 28x28. Clients have as many samples each, or lognormal numbers of
them: at most 600 and 29 on average.
"""

from collections.abc import Callable

import numpy as np

from experiments.benchmarks import script
from experiments.benchmarks.two_settings import compiled_rounds, images_of_noise
from experiments.benchmarks.uneven_clients import LINEAR, NETWORK, SIZES
from fedjax_priv import clients, losses, models, systems
from fedjax_priv.base import Algorithm, Model
from fedjax_priv.engine import sums_of_updates

SAMPLES = 1, 8, 16, 32, 64, 128
KINDS = {
    "softmax regression, 500 clients": (LINEAR, 500),
    "MLP 784-200-10, 250 clients": (NETWORK, 250),
    "CNN of McMahan et al., 32 clients": (models.mcmahan_cnn(), 32),
}
UNEVEN = {"softmax regression, 1,000 uneven clients": LINEAR, "MLP 784-200-10, 1,000 uneven clients": NETWORK}


def rounds(model: Model, sizes: np.ndarray) -> dict[str, Callable[[], object]]:
    """Calls of compiled rounds."""

    def make() -> Algorithm:
        local = clients.fedsgd(losses.softmax_cross_entropy(model))
        return systems.dp_fedavg(local, num_clients=len(sizes), sampling_rate=0.999, mesh=None)

    few = {"rows": 0, "sums": int(sizes.max())}
    return compiled_rounds(make, model, images_of_noise(sizes), sums_of_updates, "FEW_SAMPLES", few)


def table(repeats: int) -> dict[str, object]:
    """Medians by case."""
    cases = {
        f"{kind} of {samples}": (model, np.full(number, samples))
        for kind, (model, number) in KINDS.items()
        for samples in SAMPLES
    }
    cases |= {kind: (model, SIZES) for kind, model in UNEVEN.items()}
    return {name: script.medians(rounds(*case), repeats) for name, case in cases.items()}


if __name__ == "__main__":
    script.main(__doc__, table, repeats=9)

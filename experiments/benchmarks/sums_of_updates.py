"""Milliseconds of a round of DP-FedAvg whose clients take one step: with a row for each client, and with sums alone.

python -m experiments.benchmarks.sums_of_updates --out results/sums_of_updates.json [--repeats 9]

The two take turns, on one device. Images are noise, 28x28. Clients have as many samples each, or lognormal numbers of
them: at most 600 and 29 on average.
"""

from collections.abc import Callable
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import script
from experiments.benchmarks.uneven_clients import LINEAR, NETWORK, SIZES
from fedjax_priv import ClientData, clients, losses, models, systems
from fedjax_priv.base import Model
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
    shape = len(sizes), int(sizes.max())
    images = jax.random.normal(jax.random.key(1), (*shape, 28, 28, 1))
    labels = jax.random.randint(jax.random.key(2), shape, 0, 10)
    data = jax.device_put(ClientData((images, labels), jnp.asarray(sizes, jnp.int32)), jax.devices()[0])
    key, calls = jax.random.key(0), {}
    for name, few in {"rows": 0, "sums": shape[1]}.items():
        local = clients.fedsgd(losses.softmax_cross_entropy(model))
        system = systems.dp_fedavg(local, num_clients=len(sizes), sampling_rate=0.999, mesh=None)
        state = system.init(key, model.init(key), data)
        with mock.patch.object(sums_of_updates, "FEW_SAMPLES", few):
            step = jax.jit(system.step).lower(key, state, data).compile()
        calls[name] = lambda step=step, state=state: step(key, state, data)
    return calls


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

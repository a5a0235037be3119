"""Milliseconds of a round of FedSGD whose gradients are computed piece by piece, and of one that pads all clients.

python -m experiments.benchmarks.full_gradients --out results/full_gradients.json [--repeats 9]

The two take turns. Images are noise, 28x28. The first population has 1,000 clients of lognormal sizes, at most 600
samples and 29 on average; in the second, 100 clients have 600 samples each.
"""

from collections.abc import Callable
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import script
from experiments.benchmarks.uneven_clients import LINEAR, NETWORK, SIZES
from fedjax_priv import ClientData, clients, losses, systems
from fedjax_priv.base import Model
from fedjax_priv.clients import full_gradients

EVEN = np.full(100, 600)
CASES = {
    "softmax regression, 1,000 uneven clients": (LINEAR, SIZES),
    "softmax regression, 100 even clients": (LINEAR, EVEN),
    "MLP 784-200-10, 1,000 uneven clients": (NETWORK, SIZES),
    "MLP 784-200-10, 100 even clients": (NETWORK, EVEN),
}


def rounds(model: Model, data: ClientData) -> dict[str, Callable[[], object]]:
    """Calls of compiled rounds on one device."""
    key, calls = jax.random.key(0), {}
    for name, most in {"in pieces": full_gradients.MOST, "padded": 1}.items():
        system = systems.fedavg(clients.fedsgd(losses.softmax_cross_entropy(model)), mesh=None)
        state = system.init(key, model.init(key), data)
        with mock.patch.object(full_gradients, "MOST", most):
            step = jax.jit(system.step).lower(key, state, data).compile()
        calls[name] = lambda step=step, state=state: step(key, state, data)
    return calls


def table(repeats: int) -> dict[str, object]:
    """Medians by case."""
    found: dict[str, object] = {}
    for name, (model, sizes) in CASES.items():
        shape = len(sizes), int(sizes.max())
        images = jax.random.normal(jax.random.key(1), (*shape, 28, 28, 1))
        labels = jax.random.randint(jax.random.key(2), shape, 0, 10)
        data = jax.device_put(ClientData((images, labels), jnp.asarray(sizes, jnp.int32)), jax.devices()[0])
        found[name] = script.medians(rounds(model, data), repeats)
    return found


if __name__ == "__main__":
    script.main(__doc__, table, repeats=9)

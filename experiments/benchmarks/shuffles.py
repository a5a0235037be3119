"""Milliseconds of a round whose clients shuffle what their steps use, and of one whose clients shuffle all samples.

python -m experiments.benchmarks.shuffles --out results/shuffles.json [--repeats 9]

The two take turns, train on the same batches and return the same bits, which is checked. Images are noise, 28x28.
"""

from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import script
from fedjax_priv import ClientData, clients, losses, models, systems
from fedjax_priv.base import Model
from fedjax_priv.clients import minibatches, shuffles


class Work(NamedTuple):
    """Rounds of FedAvg."""

    model: Model
    num_clients: int
    samples: int  # of a client
    steps: int
    batch_size: int


LINEAR, NETWORK = models.softmax_regression((28, 28, 1), 10), models.mlp((28, 28, 1), 10)
CASES = {
    "softmax regression, 32 clients of 1,875 samples, 2 steps of 20": Work(LINEAR, 32, 1_875, 2, 20),
    "softmax regression, 100 clients of 600 samples, 1 step of 10": Work(LINEAR, 100, 600, 1, 10),
    "MLP 784-200-10, 100 clients of 600 samples, 1 step of 20": Work(NETWORK, 100, 600, 1, 20),
    "softmax regression, 1 client of 60,000 samples, 1 step of 256": Work(LINEAR, 1, 60_000, 1, 256),
}


def compiled(work: Work, data: ClientData) -> Callable[[], object]:
    """A call of a compiled round."""
    loss = losses.softmax_cross_entropy(work.model)
    local = clients.local_sgd(loss, learning_rate=0.1, batch_size=work.batch_size, num_steps=work.steps)
    key, system = jax.random.key(0), systems.fedavg(local, mesh=None)
    state = system.init(key, work.model.init(key), data)
    step = jax.jit(system.step).lower(key, state, data).compile()
    return lambda: step(key, state, data)


def rounds(work: Work, data: ClientData) -> dict[str, Callable[[], object]]:
    """Calls of compiled rounds, of which the second keeps all places of a shuffle."""
    calls = {"as used": compiled(work, data)}
    whole = lambda capacity, first: capacity
    with mock.patch.object(minibatches, "places_kept", whole), mock.patch.object(shuffles, "places_kept", whole):
        calls["whole"] = compiled(work, data)
    states = [jax.tree.leaves(call()[0].params) for call in calls.values()]  # pyright: ignore[reportIndexIssue]
    assert all(np.array_equal(a, b) for a, b in zip(*states, strict=True))
    return calls


def table(repeats: int) -> dict[str, object]:
    """Medians by case."""
    found: dict[str, object] = {}
    for name, work in CASES.items():
        shape = work.num_clients, work.samples
        images = jax.random.normal(jax.random.key(1), (*shape, 28, 28, 1))
        labels = jax.random.randint(jax.random.key(2), shape, 0, 10)
        calls = rounds(work, ClientData((images, labels), jnp.full(work.num_clients, work.samples)))
        found[name] = script.medians(calls, repeats)
    return found


if __name__ == "__main__":
    script.main(__doc__, table, repeats=9)

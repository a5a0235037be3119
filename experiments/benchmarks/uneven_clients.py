"""Milliseconds of a round whose training reads samples where they lie, and of one to whose blocks they are copied.

python -m experiments.benchmarks.uneven_clients --out results/uneven_clients.json [--repeats 9]

The two take turns. Images are noise, 28x28. The first population has 1,000 clients of lognormal sizes, at most 600
samples and 29 on average; in the second, 25 clients do not divide by two devices.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import script
from fedjax_priv import ClientData, clients, losses, models, systems
from fedjax_priv.base import Local, Model
from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.engine.state_placement import rows_over

SIZES = np.minimum(1 + np.random.default_rng(0).lognormal(2.4, 1.5, 1_000).astype(int), 600)


class Work(NamedTuple):
    """Rounds of FedAvg."""

    model: Model
    sizes: np.ndarray
    batch_size: int
    devices: int
    cohort: int | None = None


LINEAR, NETWORK = models.softmax_regression((28, 28, 1), 10), models.mlp((28, 28, 1), 10)
CASES = {
    "softmax regression, 1,000 uneven clients, one device": Work(LINEAR, SIZES, 10, 1),
    "softmax regression, 1,000 uneven clients, two devices": Work(LINEAR, SIZES, 10, 2),
    "softmax regression, 10 of 1,000 uneven clients, one device": Work(LINEAR, SIZES, 10, 1, 10),
    "MLP 784-200-10, 25 clients of 2,000 samples, two devices": Work(NETWORK, np.full(25, 2_000), 200, 2),
}


def copied(local: Local) -> Local:
    """The same training, which does not say that it can do without copies."""
    return local._replace(apply=dataclasses.replace(local.apply, in_place=False))  # pyright: ignore[reportArgumentType]


def rounds(work: Work, data: ClientData) -> dict[str, Callable[[], object]]:
    """Calls of compiled rounds."""
    mesh = clients_mesh(jax.devices()[: work.devices])
    data = jax.device_put(data, rows_over(mesh, len(work.sizes)))
    local = clients.local_sgd(
        losses.softmax_cross_entropy(work.model), learning_rate=0.1, batch_size=work.batch_size, num_epochs=1
    )
    key = jax.random.key(0)
    calls = {}
    for name, training in {"in place": local, "copied": copied(local)}.items():
        system = systems.fedavg(training, cohort_size=work.cohort, mesh=mesh if work.devices > 1 else None)
        state = system.init(key, work.model.init(key), data)
        step = jax.jit(system.step).lower(key, state, data).compile()
        calls[name] = lambda step=step, state=state: step(key, state, data)
    return calls


def table(repeats: int) -> dict[str, object]:
    """Medians by case."""
    found: dict[str, object] = {}
    for name, work in CASES.items():
        shape = len(work.sizes), int(work.sizes.max())
        images = jax.random.normal(jax.random.key(1), (*shape, 28, 28, 1))
        labels = jax.random.randint(jax.random.key(2), shape, 0, 10)
        calls = rounds(work, ClientData((images, labels), jnp.asarray(work.sizes, jnp.int32)))
        found[name] = script.medians(calls, repeats)
    return found


if __name__ == "__main__":
    script.main(__doc__, table, repeats=9)

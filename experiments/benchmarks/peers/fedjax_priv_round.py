"""Ours: `systems.fedavg` as it comes."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from reference import Arrays
from work import LEARNING_RATE, Clock, Work, main

import fedjax_priv
from fedjax_priv import clients, losses, models, systems


def train(work: Work, params: Arrays, x: np.ndarray, y: np.ndarray, rounds: int, clock: Clock) -> Arrays:
    model = models.mlp((28, 28, 1), 10) if work.model == "mlp" else models.mcmahan_cnn(padding="VALID")
    loss = losses.softmax_cross_entropy(model)
    local = clients.local_sgd(loss, learning_rate=LEARNING_RATE, batch_size=work.batch, num_epochs=work.epochs)
    system, key = systems.fedavg(local), jax.random.key(0)
    layers = sorted(model.init(key))
    tree = {name: {"kernel": w, "bias": b} for name, w, b in zip(layers, params[::2], params[1::2], strict=True)}
    data = fedjax_priv.ClientData((x, y), jnp.full(work.clients, work.samples, jnp.int32))
    key, tree, data = _place(system, key, tree, data)
    step, state = jax.jit(system.step), system.init(key, tree, data)
    for _ in range(rounds):
        state, info = jax.block_until_ready(step(key, state, data))
        clock.done()
        if info.status:
            raise RuntimeError(fedjax_priv.describe(info.status))
    return [np.asarray(state.params[name][part]) for name in layers for part in ("kernel", "bias")]


def _place(system: fedjax_priv.Algorithm, key: jax.Array, tree: dict, data: fedjax_priv.ClientData) -> tuple:
    """Puts clients over the devices where they divide evenly, and the rest on all, as `simulate` does."""
    mesh = system.mesh or fedjax_priv.clients_mesh()
    whole = NamedSharding(mesh, PartitionSpec())
    rows = NamedSharding(mesh, PartitionSpec("clients")) if len(data.count) % mesh.size == 0 else whole
    return jax.device_put((key, tree, data), (whole, whole, rows))


if __name__ == "__main__":
    main(train, ("jax", "jaxlib", "flax", "numpy"))

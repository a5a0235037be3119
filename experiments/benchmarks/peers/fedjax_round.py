"""FedJAX: `fed_avg.federated_averaging`, with its default way of going through clients.

FedJAX calls `jax.tree_map`, which JAX dropped in 0.6. With it put back, FedJAX runs on the JAX that the others have.
"""

# pyright: reportMissingImports=false

import jax
import numpy as np

jax.__dict__["tree_map"] = jax.tree.map  # before fedjax is imported

import fedjax  # noqa: E402
from fedjax.algorithms import fed_avg  # noqa: E402
from jax_models import mean_loss  # noqa: E402
from reference import Arrays  # noqa: E402
from work import LEARNING_RATE, Clock, Work, main  # noqa: E402


def train(work: Work, params: Arrays, x: np.ndarray, y: np.ndarray, rounds: int, clock: Clock) -> Arrays:
    algorithm = fed_avg.federated_averaging(
        jax.grad(lambda params, batch, rng: mean_loss(params, batch["x"], batch["y"])),
        client_optimizer=fedjax.optimizers.sgd(LEARNING_RATE),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch, num_epochs=work.epochs),
    )
    keys = jax.random.split(jax.random.PRNGKey(0), work.clients)
    sets = [fedjax.ClientDataset({"x": a, "y": b}) for a, b in zip(x, y, strict=True)]
    clients = [(str(i).encode(), samples, key) for i, (samples, key) in enumerate(zip(sets, keys, strict=True))]
    state = algorithm.init(jax.device_put(params))
    for _ in range(rounds):
        state, _ = jax.block_until_ready(algorithm.apply(state, clients))
        clock.done()
    return [np.asarray(p) for p in state.params]


if __name__ == "__main__":
    main(train, ("fedjax", "jax", "jaxlib", "dm-haiku", "numpy"))

"""FedJAX: `fed_avg.federated_averaging`, with its default way of going through clients."""

# pyright: reportMissingImports=false

import fedjax
import jax
import numpy as np
from fedjax.algorithms import fed_avg
from jax_models import mean_loss
from reference import Arrays
from work import LEARNING_RATE, Clock, Work, main


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

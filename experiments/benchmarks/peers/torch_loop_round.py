"""A plain PyTorch loop over clients."""

# pyright: reportMissingImports=false

import numpy as np
import torch
import torch_models
from reference import Arrays
from work import LEARNING_RATE, Clock, Work, main


def train(work: Work, params: Arrays, x: np.ndarray, y: np.ndarray, rounds: int, clock: Clock) -> Arrays:
    net, weights = torch_models.network(work.model), torch_models.to_torch(params)
    images, labels = torch_models.images(x), torch_models.labels(y)
    for _ in range(rounds):
        total = [torch.zeros_like(w) for w in weights]
        for client in range(work.clients):
            torch_models.load(net, weights)
            samples = images[client], labels[client]
            torch_models.descend(net, *samples, batch=work.batch, epochs=work.epochs, learning_rate=LEARNING_RATE)
            with torch.no_grad():
                for t, p in zip(total, net.parameters(), strict=True):
                    t += p
        weights = [t / work.clients for t in total]
        clock.done()
    return torch_models.to_numpy(weights)


if __name__ == "__main__":
    main(train, ("torch", "numpy"))

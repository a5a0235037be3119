"""PyTorch with `torch.func`: every client's step at once, by `vmap` of `grad`."""

# pyright: reportMissingImports=false

import numpy as np
import torch
import torch_models
from reference import Arrays
from torch.func import functional_call, grad, vmap
from work import LEARNING_RATE, Clock, Work, main


def train(work: Work, params: Arrays, x: np.ndarray, y: np.ndarray, rounds: int, clock: Clock) -> Arrays:
    net = torch_models.network(work.model)
    names = [name for name, _ in net.named_parameters()]

    def loss(weights: dict, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(functional_call(net, weights, (x,)), y)

    gradient = vmap(grad(loss))
    images, labels = torch_models.images(x), torch_models.labels(y)
    weights = dict(zip(names, torch_models.to_torch(params), strict=True))
    for _ in range(rounds):
        local = {name: w.expand(work.clients, *w.shape).clone() for name, w in weights.items()}
        for start in range(0, work.epochs * work.samples, work.batch):
            batch = slice(start % work.samples, start % work.samples + work.batch)
            grads = gradient(local, images[:, batch], labels[:, batch])
            for name, w in local.items():
                w.sub_(grads[name], alpha=LEARNING_RATE)
        weights = {name: w.mean(0) for name, w in local.items()}
        clock.done()
    return torch_models.to_numpy(list(weights.values()))


if __name__ == "__main__":
    main(train, ("torch", "numpy"))

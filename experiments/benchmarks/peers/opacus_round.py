"""Opacus: a step of DP-SGD with its `GradSampleModule` and `DPOptimizer`."""

# pyright: reportMissingImports=false

import numpy as np
import torch
import torch_models
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from reference import Arrays
from work import LEARNING_RATE, Clock, Work, main


def train(work: Work, params: Arrays, x: np.ndarray, y: np.ndarray, rounds: int, clock: Clock) -> Arrays:
    net = torch_models.network(work.model)
    torch_models.load(net, torch_models.to_torch(params))
    private = GradSampleModule(net)
    optimizer = DPOptimizer(
        torch.optim.SGD(private.parameters(), lr=LEARNING_RATE),
        noise_multiplier=work.noise,
        max_grad_norm=work.clip,
        expected_batch_size=work.batch,
    )
    images, labels = torch_models.images(x)[0], torch_models.labels(y)[0]
    for _ in range(rounds):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(private(images), labels).backward()
        optimizer.step()
        clock.done()
    return torch_models.to_numpy(list(net.parameters()))


if __name__ == "__main__":
    main(train, ("opacus", "torch", "numpy"))

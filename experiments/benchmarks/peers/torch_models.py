"""The models in PyTorch, and parameters there and back."""

# pyright: reportMissingImports=false

import numpy as np
import torch
from reference import Arrays
from torch import nn


def network(model: str) -> nn.Sequential:
    """Of images `[b, 1, 28, 28]`, with PyTorch's own initial parameters."""
    dense = (nn.Flatten(), nn.Linear(784 if model == "mlp" else 1024, 200 if model == "mlp" else 512), nn.ReLU())
    convolutions = () if model == "mlp" else (*_convolution(1, 32), *_convolution(32, 64))
    return nn.Sequential(*convolutions, *dense, nn.Linear(dense[1].out_features, 10))


def _convolution(channels: int, features: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(channels, features, 5), nn.MaxPool2d(2), nn.ReLU()


def images(x: np.ndarray) -> torch.Tensor:
    """`[..., 28, 28, 1] -> [..., 1, 28, 28]`, without a copy."""
    return torch.from_numpy(x).movedim(-1, -3)


def labels(y: np.ndarray) -> torch.Tensor:
    """int64, which PyTorch's losses want."""
    return torch.from_numpy(y).long()


def to_torch(params: Arrays) -> list[torch.Tensor]:
    """From `[height, width, in, out]` and `[in, out]` to PyTorch's order of the same parameters."""
    moved = []
    for w in params:
        if w.ndim == 4:
            w = w.transpose(3, 2, 0, 1)
        elif w.shape == (1024, 512):  # its inputs are an image, with the channels first in PyTorch
            w = w.reshape(4, 4, 64, 512).transpose(3, 2, 0, 1).reshape(512, 1024)
        elif w.ndim == 2:
            w = w.T
        moved.append(torch.from_numpy(np.ascontiguousarray(w)))
    return moved


def to_numpy(params: list[torch.Tensor]) -> Arrays:
    """The way back."""
    moved = []
    for w in (p.detach().numpy().copy() for p in params):
        if w.ndim == 4:
            w = w.transpose(2, 3, 1, 0)
        elif w.shape == (512, 1024):
            w = w.reshape(512, 64, 4, 4).transpose(2, 3, 1, 0).reshape(1024, 512)
        elif w.ndim == 2:
            w = w.T
        moved.append(w)
    return moved


def load(net: nn.Module, params: list[torch.Tensor]) -> None:
    """Copies parameters into a network."""
    with torch.no_grad():
        for p, value in zip(net.parameters(), params, strict=True):
            p.copy_(value)


def descend(net: nn.Module, x: torch.Tensor, y: torch.Tensor, *, batch: int, epochs: int, learning_rate: float) -> None:
    """Local training of one client, as in PyTorch's tutorials."""
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)
    for _ in range(epochs):
        for images, labels in zip(x.split(batch), y.split(batch), strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()

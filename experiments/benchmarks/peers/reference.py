"""The models and a round of FedAvg in NumPy, of whatever float type the arrays have.

Every peer is checked against this in float64; in float32 it is itself a peer. Parameters are a list of arrays, kernels
`[height, width, in, out]` and `[in, out]`, each followed by its bias.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from work import Work

Arrays = list[np.ndarray]


class Model(NamedTuple):
    """A classifier of 28x28 images."""

    gradient: Callable[[Arrays, np.ndarray, np.ndarray], Arrays]  # of the mean loss of a batch
    shapes: tuple[tuple[int, ...], ...]  # of the kernels
    macs: int  # multiply-accumulates of the forward pass of one image


def initial(model: str) -> Arrays:
    """Parameters that every peer starts from: kernels normal with variance 2 / inputs, biases small."""
    rng, params = np.random.default_rng(1), []
    for shape in MODELS[model].shapes:
        scale = np.sqrt(2 / np.prod(shape[:-1]))
        params += [(scale * rng.standard_normal(shape)).astype(np.float32)]
        params += [(0.01 * rng.standard_normal(shape[-1])).astype(np.float32)]
    return params


def fedavg_round(work: "Work", params: Arrays, x: np.ndarray, y: np.ndarray, learning_rate: float) -> Arrays:
    """A loop over clients; all have as many samples, so the mean weighted by samples is the plain one."""
    gradient, total = MODELS[work.model].gradient, [np.zeros_like(p) for p in params]
    for images, labels in zip(x, y, strict=True):
        local = [p.copy() for p in params]
        for start in range(0, work.epochs * work.samples, work.batch):
            batch = slice(start % work.samples, start % work.samples + work.batch)
            for p, g in zip(local, gradient(local, images[batch], labels[batch]), strict=True):
                p -= learning_rate * g
        for t, p in zip(total, local, strict=True):
            t += p
    return [t / work.clients for t in total]


def dp_step(work: "Work", params: Arrays, x: np.ndarray, y: np.ndarray, learning_rate: float) -> Arrays:
    """DP-SGD without noise (Abadi et al. 2016, Algorithm 1), a loop over the samples of the only client."""
    total = [np.zeros_like(p) for p in params]
    for i in range(work.samples):
        grads = MODELS[work.model].gradient(params, x[0, i : i + 1], y[0, i : i + 1])
        norm = np.sqrt(sum((g**2).sum() for g in grads))
        for t, g in zip(total, grads, strict=True):
            t += g / max(1.0, norm / work.clip)
    return [p - learning_rate * t / work.samples for p, t in zip(params, total, strict=True)]


def _mlp(params: Arrays, x: np.ndarray, y: np.ndarray) -> Arrays:
    """784-200-10 with ReLU."""
    return _dense(params, x.reshape(len(x), -1), y)[0]


def _cnn(params: Arrays, x: np.ndarray, y: np.ndarray) -> Arrays:
    """Two 5x5 convolutions without padding, each 2x2 max-pooled and ReLU, then 1024-512-10."""
    w1, b1, w2, b2, *dense = params
    columns1, pooled1, back1 = _conv_pool(x, w1, b1)
    columns2, pooled2, back2 = _conv_pool(pooled1, w2, b2)
    grads, to_pooled = _dense(dense, pooled2.reshape(len(x), -1), y)
    to_conv2 = back2(to_pooled.reshape(pooled2.shape))
    to_conv1 = back1(_input_gradient(to_conv2, w2, pooled1.shape))
    convolutions = []
    for columns, to_conv, w in ((columns1, to_conv1, w1), (columns2, to_conv2, w2)):
        rows = to_conv.reshape(-1, w.shape[-1])
        convolutions += [(columns.T @ rows).reshape(w.shape), rows.sum(0)]
    return convolutions + grads


def _dense(params: Arrays, x: np.ndarray, y: np.ndarray) -> tuple[Arrays, np.ndarray]:
    """Gradients of a hidden ReLU layer, an output layer and the mean softmax cross-entropy, and that of `x`."""
    w1, b1, w2, b2 = params
    hidden = np.maximum(x @ w1 + b1, 0)
    logits = hidden @ w2 + b2
    weights = np.exp(logits - logits.max(1, keepdims=True))
    to_logits = weights / weights.sum(1, keepdims=True)
    to_logits[np.arange(len(y)), y] -= 1
    to_logits /= len(y)
    to_hidden = (to_logits @ w2.T) * (hidden > 0)
    return [x.T @ to_hidden, to_hidden.sum(0), hidden.T @ to_logits, to_logits.sum(0)], to_hidden @ w1.T


def _conv_pool(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, Callable]:
    """The columns for the kernel's gradient, the output, and how the output's gradient goes back to before pooling."""
    taps, channels = w.shape[0], w.shape[-1]
    windows = np.lib.stride_tricks.sliding_window_view(x, (taps, taps), axis=(1, 2))
    columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, w[..., 0].size)
    side = x.shape[1] - taps + 1
    y = (columns @ w.reshape(-1, channels) + b).reshape(len(x), side // 2, 2, side // 2, 2, channels)
    largest = y.max(axis=(2, 4), keepdims=True)

    def back(cotangent: np.ndarray) -> np.ndarray:
        passed = cotangent[:, :, None, :, None] * ((y == largest) & (largest > 0))
        return passed.reshape(len(x), side, side, channels)

    return columns, np.maximum(largest[:, :, 0, :, 0], 0), back


def _input_gradient(cotangent: np.ndarray, w: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Of a convolution without padding: each tap of the kernel adds its share."""
    total, (_, height, width, _) = np.zeros(shape, cotangent.dtype), cotangent.shape
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            total[:, i : i + height, j : j + width] += cotangent @ w[i, j].T
    return total


MODELS = {
    "mlp": Model(_mlp, ((784, 200), (200, 10)), 784 * 200 + 200 * 10),
    "cnn": Model(
        _cnn,
        ((5, 5, 1, 32), (5, 5, 32, 64), (1024, 512), (512, 10)),
        24 * 24 * 25 * 32 + 8 * 8 * 25 * 32 * 64 + 1024 * 512 + 512 * 10,
    ),
}

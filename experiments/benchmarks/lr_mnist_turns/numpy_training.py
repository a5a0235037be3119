"""The linear model of the card `lr_mnist` in NumPy, and what a run of it is given: imports neither JAX nor Flower."""

import functools
import pathlib
from typing import NamedTuple

import numpy as np

Arrays = list[np.ndarray]
"""Kernel `[d, 10]` and bias `[10]`."""


class Given(NamedTuple):
    """Split, initial parameters, participants and batches of a run; arrays of a folder, mapped into memory."""

    x: np.ndarray  # [k, d], training images, a device's next to each other
    y: np.ndarray  # [k]
    start: np.ndarray  # [devices + 1], where those of a device begin
    x_test: np.ndarray
    y_test: np.ndarray
    initial: np.ndarray  # [10 + 10 d], bias first
    devices: np.ndarray  # [rounds, cohort], who takes part
    orders: np.ndarray  # [rounds, cohort, m], the order in which it takes its samples


def write(folder: pathlib.Path, **arrays: np.ndarray) -> None:
    """Adds arrays to a folder, by their names in `Given`."""
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


@functools.cache
def read(folder: str) -> Given:
    """What is in a folder; mapped once in each process."""
    return Given(*(np.load(pathlib.Path(folder, f"{name}.npy"), mmap_mode="r") for name in Given._fields))


def unravelled(flat: np.ndarray) -> Arrays:
    """Kernel and bias of parameters as a run of ours returns them."""
    return [flat[10:].reshape(-1, 10), flat[:10]]


def ravelled(params: Arrays) -> np.ndarray:
    kernel, bias = params
    return np.concatenate([bias, kernel.ravel()])


def trained(given: Given, params: Arrays, place: tuple[int, int], how: dict) -> tuple[Arrays, int]:
    """Parameters after an epoch of plain SGD, and the device's number of samples.

    Args:
      given: of the run.
      params: the server's.
      place: round, from 0, and place in the cohort.
      how: `batch_size`, `learning_rate`, and `outputs`: "sigmoid" or "linear".
    """
    device = given.devices[place]
    begin, end = given.start[device], given.start[device + 1]
    order = given.orders[place][: end - begin]
    x, y = given.x[begin:end][order], given.y[begin:end][order]
    kernel, bias = (np.array(p) for p in params)
    for first in range(0, len(y), how["batch_size"]):
        batch = slice(first, first + how["batch_size"])
        of_kernel, of_bias = gradient([kernel, bias], x[batch], y[batch], how["outputs"])
        kernel -= np.float32(how["learning_rate"]) * of_kernel
        bias -= np.float32(how["learning_rate"]) * of_bias
    return [kernel, bias], len(y)


def gradient(params: Arrays, x: np.ndarray, y: np.ndarray, outputs: str) -> Arrays:
    """Of the mean softmax cross-entropy of what `scores` returns."""
    logits = scores(params, x, outputs)
    weights = np.exp(logits - logits.max(1, keepdims=True))
    error = weights / weights.sum(1, keepdims=True)
    error[np.arange(len(y)), y] -= 1
    error /= len(y)
    if outputs == "sigmoid":
        error *= logits * (1 - logits)
    return [x.T @ error, error.sum(0)]


def scores(params: Arrays, x: np.ndarray, outputs: str) -> np.ndarray:
    """What the cross-entropy takes for logits, `[b, 10]`."""
    kernel, bias = params
    y = x @ kernel + bias
    return 1 / (1 + np.exp(-y)) if outputs == "sigmoid" else y


def accuracy(params: Arrays, given: Given, outputs: str) -> float:
    """In percent, on the test samples of all devices."""
    return 100 * float((scores(params, given.x_test, outputs).argmax(1) == given.y_test).mean())

"""What others print of private training by DP-SGD: settings, eps at delta = 1e-5, and test accuracy.

A step of DP-SGD on samples drawn by coins is a round of DP-FedAvg: each sample is a client, takes one step of rate 1,
and the server's optimizer has the rate.
"""

from typing import NamedTuple

POPULATION = 60_000
"""Training samples of MNIST."""
DELTA = 1e-5


class Row(NamedTuple):
    """A printed row."""

    epsilon: str  # printed
    accuracy: float  # mean of its runs, in percent
    deviation: float | None  # standard deviation of its runs, in points; None: not printed
    runs: int
    noise_multiplier: float  # z
    clip: float  # C
    rate: float
    steps: int
    batch: float = 256  # expected number of samples of a step
    momentum: float = 0.0
    shuffled: bool = False  # batches are cut from shuffles, and eps is that of coins
    statistics: float | None = None  # z of two releases that normalise features, counted in eps; None: there are none


OPACUS = {
    "1": Row("1.19", 94.63, 0.34, 10, 1.3, 1.5, 0.25, 15 * 234),
    "3": Row("3.01", 96.78, 0.21, 10, 1.1, 1.0, 0.15, 60 * 234),
    "7": Row("7.10", 97.09, 0.17, 10, 0.7, 1.5, 0.25, 45 * 234),
}
"""The table in the README of Opacus's example on MNIST, by eps; an epoch is 234 steps. 98.94 +- .32 without privacy."""

TF_PRIVACY = {
    "1": Row("1.20", 95.0, None, 10, 1.2, 1.0, 0.32, 2343, shuffled=True),
    "3": Row("2.92", 96.6, None, 10, 1.12, 1.0, 0.08, 14062, shuffled=True),
    "10": Row("9.74", 97.3, None, 10, 0.6, 1.0, 0.4, 7031, shuffled=True),
}
"""The table in the README of TensorFlow Privacy's tutorial on MNIST, by eps."""

TRAMER_BONEH = Row("3", 98.7, None, 1, 3.04, 0.1, 8.0, 560, batch=4096, momentum=0.9, shuffled=True, statistics=8.0)
"""MNIST, a linear model on scattering features (arXiv 2011.11660); 560 steps are those of the printed eps."""

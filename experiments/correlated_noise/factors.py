"""The matrices that are compared: each as a process of the simulation, and by its closed forms."""

from typing import NamedTuple

import numpy as np

from fedjax_priv import server_noise
from fedjax_priv.server_noise import ServerNoise
from fedjax_priv.theory import correlated_noise as theory
from fedjax_priv.theory.correlated_noise import Schedule


class Factor(NamedTuple):
    """One matrix C for one schedule of clients."""

    noise: ServerNoise
    sensitivity: float
    error: np.ndarray  # [n], of the prefix sum after each round, in deviations of the seed
    vectors: int  # of d numbers, kept from round to round


def factors(schedule: Schedule, bands: int, buffers: int) -> dict[str, Factor]:
    """The matrices by name; some have as many bands as rounds of a client are apart, some `bands`."""
    n, wide = schedule.num_rounds, min(schedule.separation, schedule.num_rounds)
    return {
        "independent": _toeplitz(schedule, server_noise.independent(), np.ones(1), 0),
        "tree": _tree(schedule, variance_reduced=False),
        "tree, reduced": _tree(schedule, variance_reduced=True),
        "square root": _banded(schedule, theory.square_root(n)),
        f"BSR {bands}": _banded(schedule, theory.square_root(bands)),
        f"BISR {bands}": _inverse(schedule, theory.inverse_square_root(bands)),
        f"BLT {buffers}": _buffered(schedule, *theory.optimal_buffered(schedule, buffers)),
        f"BandMF {bands}": _banded(schedule, theory.optimal_banded(n, bands)),
        "BandMF, b bands": _banded(schedule, theory.optimal_banded(n, wide)),
    }


def sign_error(num_rounds: int) -> ServerNoise:
    """The inverse of the square root with all signs positive, a control: as private, and far noisier."""
    return server_noise.banded_inverse(np.abs(theory.inverse_square_root(num_rounds)))


def _toeplitz(schedule: Schedule, noise: ServerNoise, column: np.ndarray, vectors: int) -> Factor:
    sensitivity = theory.toeplitz_sensitivity(column, schedule)
    return Factor(noise, sensitivity, theory.toeplitz_error(column, schedule.num_rounds), vectors)


def _banded(schedule: Schedule, column: np.ndarray) -> Factor:
    return _toeplitz(schedule, server_noise.banded(column), column, len(column) - 1)


def _inverse(schedule: Schedule, inverse: np.ndarray) -> Factor:
    column = theory.column_of_inverse(inverse, schedule.num_rounds)
    return _toeplitz(schedule, server_noise.banded_inverse(inverse), column, len(inverse) - 1)


def _buffered(schedule: Schedule, weights: np.ndarray, decays: np.ndarray) -> Factor:
    column = theory.buffered_column(weights, decays, schedule.num_rounds)
    return _toeplitz(schedule, server_noise.buffered(weights, decays), column, len(weights))


def _tree(schedule: Schedule, *, variance_reduced: bool) -> Factor:
    n = schedule.num_rounds
    error = theory.tree_error(n, variance_reduced=variance_reduced)
    vectors = n.bit_length() - 1 if variance_reduced else 0
    noise = server_noise.tree(n, variance_reduced=variance_reduced)
    return Factor(noise, theory.tree_sensitivity(schedule), error, vectors)

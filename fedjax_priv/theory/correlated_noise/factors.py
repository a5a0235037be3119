"""Lower triangular Toeplitz matrices C for noise `C^-1 z`, given by the first column of C or of its inverse.

The noise processes of the simulation take these columns, for instance `server_noise.banded(square_root(8))`.
"""

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory.correlated_noise import workload as series
from fedjax_priv.theory.correlated_noise.workload import SGD, Column, Workload


def square_root(bands: int, workload: Workload = SGD) -> np.ndarray:
    """The first column of the square root of A, `[bands]`: 1, 1/2, 3/8, 5/16, ... for SGD.

    With as many bands as rounds this is the square-root factorization, C = B (Fichtenberger, Henzinger and Upadhyay
    2023, arXiv 2202.11205); with fewer, BSR (Kalinin and Lampert 2024, arXiv 2405.13763).

    Args:
      bands: how many coefficients of C are not 0.
      workload: of the server's optimizer.

    Examples:
      >>> print(square_root(4))
      [1.     0.5    0.375  0.3125]
    """
    return series.root_column(_validate.length(bands=bands), workload, -0.5)


def inverse_square_root(bands: int, workload: Workload = SGD) -> np.ndarray:
    """The first column of the inverse of `square_root`, `[bands]`: 1, -1/2, -1/8, -1/16, ... for SGD.

    As a banded C^-1, whose further coefficients are 0, it is BISR (Kalinin, McKenna, Upadhyay and Lampert 2025, arXiv
    2505.12128); `column_of_inverse` gives its C.

    Args:
      bands: p, how many coefficients.
      workload: of the server's optimizer.

    Examples:
      >>> print(inverse_square_root(4))
      [ 1.     -0.5    -0.125  -0.0625]
    """
    return series.root_column(_validate.length(bands=bands), workload, 0.5)


def column_of_inverse(coefficients: Column, num_rounds: int) -> np.ndarray:
    """The first column of C, `[n]`, from the first column of a banded C^-1.

    Args:
      coefficients: of C^-1, `[p]`; the first is not 0.
      num_rounds: n.

    Examples:
      >>> print(column_of_inverse([1.0, -0.5], 4))
      [1.    0.5   0.25  0.125]
    """
    given = np.asarray(coefficients, np.float64)
    if given.ndim != 1 or not given.size or not np.isfinite(given).all() or given[0] == 0:
        _validate.fail("coefficients", coefficients, "finite numbers, the first not 0")
    return series.divided(series.one(_validate.length(num_rounds=num_rounds)), given)


def buffered_column(weights: Column, decays: Column, num_rounds: int) -> np.ndarray:
    """The first column of a buffered linear Toeplitz C, `[n]`: c_0 = 1, c_k = sum_i w_i theta_i^{k-1}.

    Args:
      weights: w, `[m]`.
      decays: theta in [0, 1), `[m]`.
      num_rounds: n.

    Examples:
      >>> print(buffered_column([0.5, 0.1], [0.5, 0.9], 4).round(3))
      [1.    0.6   0.34  0.206]
    """
    theta, w = _validate.real("[0, 1)", decays=decays), _validate.real("(-inf, inf)", weights=weights)
    if w.shape != theta.shape or w.ndim != 1:
        _validate.fail("weights", weights, f"as many numbers as decays, {theta.size}")
    later = np.arange(_validate.length(num_rounds=num_rounds) - 1)
    return np.concatenate([[1.0], (w[:, None] * theta[:, None] ** later).sum(0)])

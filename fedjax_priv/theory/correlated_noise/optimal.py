"""Matrices C with the least mean noise, found by L-BFGS in float64; a process computes each of them once."""

import functools

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory.correlated_noise.factors import square_root
from fedjax_priv.theory.correlated_noise.sensitivity import Schedule, checked, toeplitz_sensitivity
from fedjax_priv.theory.correlated_noise.workload import SGD, Workload, divided, multiplied, one, workload_column

_CLOSE = {"maxiter": 5000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-9}
_MOST, _BEYOND = 2**28, 1e3
_CLOSE_ENOUGH = {"maxiter": 500, "ftol": 1e-11}
_MOST_BUFFERS = 100  # more take minutes; papers use up to ten


@functools.cache
def optimal_banded(num_rounds: int, bands: int, workload: Workload = SGD) -> np.ndarray:
    """The first column, of norm 1, of the banded Toeplitz C with the least root mean square error, `[bands]`.

    If rounds of a client are at least `bands` apart, C has sensitivity sqrt(k) times the norm of its column, so this C
    is the best for any number k of rounds. Source: Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta and Xu
    2023, arXiv 2306.08153 (Toeplitz form of BandMF).

    Args:
      num_rounds: n; the error is averaged over n rounds.
      bands: at most n. The search takes some hundred times n * bands operations; n * bands may be up to 2**28.
      workload: of the server's optimizer.

    Returns:
      An array that cannot be written to.

    Examples:
      >>> print(optimal_banded(num_rounds=16, bands=3).round(3))
      [0.813 0.467 0.348]
    """
    from scipy.optimize import minimize  # slow to import

    n, b = _validate.length(num_rounds=num_rounds), _validate.length(bands=bands)
    if b > n:
        _validate.fail("bands", bands, f"at most num_rounds = {n}")
    if n * b > _MOST:
        _validate.fail("bands", bands, f"at most {_MOST // n} at num_rounds = {n}, whose search takes minutes")
    column = square_root(b, workload)
    if b > 1:
        found = minimize(
            _banded_loss, column[1:], (workload_column(n, workload),), "L-BFGS-B", jac=True, options=_CLOSE
        )
        column = np.concatenate([[1.0], found.x])
    return _fixed(column / np.linalg.norm(column))


def _banded_loss(later: np.ndarray, a: np.ndarray) -> tuple[float, np.ndarray]:
    """Log of the root mean square error of the column 1, c_1, ... scaled to norm 1, and its gradient in c_1, ...

    As power series, B is b = a / c, and db = -(b / c) dc: the gradient is one transposed triangular solve. Over many
    rounds some columns have an error beyond float64; a large number turns the search back.
    """
    from scipy.signal import correlate  # slow to import

    n, c = len(a), np.concatenate([[1.0], later])
    weight = np.arange(n, 0, -1)
    with np.errstate(over="ignore", invalid="ignore"):
        b = divided(a, c)
        error, size = weight @ b**2, c @ c
    if not np.isfinite(error):
        return _BEYOND, np.zeros_like(later)
    back = divided((weight * b)[::-1], c)[::-1] / error
    slope = correlate(back, b, method="fft")[n - 1 : n - 1 + len(c)]
    return float(np.log(error / n * size) / 2), (c / size - slope)[1:]


@functools.cache
def optimal_buffered(schedule: Schedule, buffers: int, workload: Workload = SGD) -> tuple[np.ndarray, np.ndarray]:
    """Weights and decays of the buffered linear Toeplitz C with about the least error times sensitivity, `[m]` each.

    A local optimum for the root mean square error; the search starts at decays that are spread evenly on a logarithmic
    scale. Source: McMahan, Xu and Zhang 2024, arXiv 2408.08868.

    Args:
      schedule: of a client; the error is averaged over its rounds.
      buffers: m.
      workload: of the server's optimizer.

    Returns:
      Arrays that cannot be written to.

    Examples:
      >>> weights, decays = optimal_buffered(Schedule(16, separation=4), buffers=1)
      >>> print(weights.round(2), decays.round(2))
      [0.61] [0.53]
    """
    from scipy.optimize import minimize, nnls

    m, (n, _, _) = _validate.whole(at_most=_MOST_BUFFERS, buffers=buffers), checked(schedule)
    decays = 1 - (2.0 * n) ** -((np.arange(m) + 0.5) / m)
    fitted = square_root(max(n, m + 1), workload)[1:]
    weights = nnls(decays ** np.arange(len(fitted))[:, None], fitted)[0]
    start = np.concatenate([np.log(np.maximum(weights, 1e-3)), np.log(decays / (1 - decays))])
    bounds = [(-12.0, 0.0)] * m + [(-9.0, np.log(100.0 * n))] * m
    given = schedule, workload_column(n, workload)
    found = minimize(_buffered_loss, start, given, "L-BFGS-B", "3-point", bounds=bounds, options=_CLOSE_ENOUGH)
    weights, decays = _parameters(found.x)
    return _fixed(weights), _fixed(decays)


def _buffered_loss(free: np.ndarray, schedule: Schedule, a: np.ndarray) -> float:
    """Log of error times sensitivity. C is a quotient of two polynomials, so solving with C takes m steps per round."""
    weights, decays = _parameters(free)
    below = np.poly(decays)  # the product of 1 - theta_i x
    above = below + np.append(0, weights @ [np.poly(np.delete(decays, i)) for i in range(len(decays))])
    c = divided(multiplied(one(len(a)), above), below)
    error = np.arange(len(a), 0, -1) @ divided(multiplied(a, below), above) ** 2
    return float(np.log(error) / 2 + np.log(toeplitz_sensitivity(c, schedule)))


def _parameters(free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights from their logarithms, and decays by the logistic function."""
    log_weights, logits = np.split(free, 2)
    return np.exp(log_weights), 1 / (1 + np.exp(-logits))


def _fixed(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array

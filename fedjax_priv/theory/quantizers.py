"""Errors of unbiased quantizers, exactly and as bounds, and the bits of their messages."""

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result


def qsgd_error(vector: np.ndarray, levels: int) -> np.float64:
    """What is the mean squared error of QSGD? `(||v||**2 / s**2) sum_i f_i (1 - f_i)`.

    f_i is the fractional part of `s |v_i| / ||v||`. Exact, whereas Lemma 3.1 of Alistarh et al. 2017 is a bound.

    Args:
      vector: v, `[d]`.
      levels: s >= 1.

    Examples:
      >>> print(qsgd_error(np.array([3.0, 4.0]), levels=1).round(6), qsgd_error(np.array([3.0, 4.0]), levels=5))
      10.0 0.0
    """
    vector, levels = _vector(vector), _validate.whole(levels=levels)
    largest = np.abs(vector).max(initial=0)
    if not largest:
        return np.float64(0)
    size = np.abs(vector) / largest  # squares neither overflow nor vanish
    norm = np.linalg.norm(size)
    fraction = levels * size / norm % 1
    return np.square(largest * (norm / levels * np.sqrt((fraction * (1 - fraction)).sum())))


def qsgd_error_bound(num_params: Numbers, levels: Numbers) -> Result:
    """How large is `qsgd_error` at most? `min(d / s**2, sqrt(d) / s)` times ||v||^2 (Alistarh et al. 2017, Lemma 3.1).

    Args:
      num_params: d.
      levels: s.

    Examples:
      >>> print(qsgd_error_bound(10_000, levels=100))
      1.0
    """
    d, levels = _validate.integer(num_params=num_params), _validate.integer(levels=levels)
    return np.minimum(d / levels**2, np.sqrt(d) / levels)


def qsgd_bits(num_params: Numbers, levels: Numbers) -> Result:
    """How many bits does a QSGD message have in a fixed-length code? `32 + d (1 + ceil(log2(s + 1)))`.

    Args:
      num_params: d.
      levels: s.

    Examples:
      >>> print(qsgd_bits(7850, levels=1))
      15732.0
    """
    d, levels = _validate.integer(num_params=num_params), _validate.integer(levels=levels)
    return 32 + d * (1 + np.frexp(levels)[1])  # the logarithm of 2**49 + 1 is rounded to 49


def uniform_error(vector: np.ndarray, bits: int, limit: float) -> np.float64:
    """What is the mean squared error with 2**b even levels on [-A, A]? `Delta**2 sum_i f_i (1 - f_i)`, plus clipping.

    `Delta = 2 A / (2**b - 1)`, and f_i is the fractional part of `(v_i + A) / Delta` after clipping. At most
    `d Delta**2 / 4` if nothing is clipped. Clipping adds the squared distance to the clipped vector.

    Args:
      vector: v, `[d]`.
      bits: b, from 1 to 1023.
      limit: A > 0.

    Examples:
      >>> print(uniform_error(np.array([0.0, 1.0]), bits=1, limit=1.0), uniform_error(np.array([3.0]), 1, 1.0))
      1.0 4.0
    """
    vector, bits = _vector(vector), _validate.whole(bits=bits)
    most = _validate.real("(0, inf)", limit=limit)
    if bits > 1023:
        _validate.fail("bits", bits, "an integer from 1 to 1023")
    step, kept = 2 * most / (2**bits - 1), np.clip(vector, -most, most)
    fraction = (kept + most) / step % 1
    return np.square(step) * (fraction * (1 - fraction)).sum() + np.square(vector - kept).sum()


def _vector(vector: np.ndarray) -> np.ndarray:
    array = np.asarray(vector)
    if array.dtype.kind not in "iuf" or array.ndim != 1 or not np.isfinite(array).all():
        _validate.fail("vector", vector, "finite numbers [d]")
    return array.astype(np.float64)

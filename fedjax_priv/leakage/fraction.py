"""Fractions of the values that honest survivors send, with standard errors."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Fraction(NamedTuple):
    """Ratios of two totals over independent units, such as coordinates or rounds."""

    value: Float[np.ndarray, " s"]  # NaN if nothing was sent
    error: Float[np.ndarray, " s"]  # standard error; NaN for a single unit


def ratio(read: Int[np.ndarray, "u s"], sent: Int[np.ndarray, " u"]) -> Fraction:
    """`sum(read) / sum(sent)`, with the standard error of a ratio of means (first order, independent units).

    Args:
      read: values read in each unit, by size of the sum they are read in.
      sent: values that honest survivors sent in each unit; if there are none, the results are NaN.

    Raises:
      ValueError: `read` and `sent` are not tables of the same units.

    Examples:
      >>> found = ratio(read=np.array([[1, 2], [0, 2]]), sent=np.array([5, 5]))
      >>> print(found.value)  # alone, and in sums of two
      [0.1 0.4]
    """
    read, sent = np.asarray(read), np.asarray(sent)
    if sent.ndim != 1 or read.ndim != 2 or len(read) != len(sent):
        shape = f"({len(sent)}, sizes)" if sent.ndim == 1 else "(units, sizes)"
        raise ValueError(f"read must have shape {shape} and sent (units,), got {read.shape} and {sent.shape}")
    units, total = len(sent), sent.sum()
    if not total:
        return Fraction(*np.full((2, read.shape[1]), np.nan))
    value = read.sum(0) / total
    square = np.square(read - sent[:, None] * value).sum(0)
    return Fraction(value, np.sqrt(square * units / (units - 1)) / total if units > 1 else np.full_like(value, np.nan))

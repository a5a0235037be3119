"""Shares of what honest survivors send, by the size of the sum it is read in, with their standard errors."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Fraction(NamedTuple):
    """Ratios of two totals over independent units, such as coordinates or rounds."""

    value: Float[np.ndarray, " s"]
    error: Float[np.ndarray, " s"]  # standard error; NaN of a single unit


def ratio(read: Int[np.ndarray, "u s"], sent: Int[np.ndarray, " u"]) -> Fraction:
    """`sum(read) / sum(sent)`, with the error of a ratio of means (first-order, units independent).

    Args:
      read: values read in each unit, by size.
      sent: values that honest survivors sent in each unit; not all zero.
    """
    units, total = len(sent), sent.sum()
    value = read.sum(0) / total
    square = np.square(read - sent[:, None] * value).sum(0)
    return Fraction(value, np.sqrt(square * units / (units - 1)) / total if units > 1 else np.full_like(value, np.nan))

"""Confidence intervals of means over few runs."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit  # scipy.stats takes a second to import


def half_width(values: ArrayLike, axis: int = 0, *, confidence: float = 0.95) -> np.ndarray:
    """Half the width of Student's interval for a mean: `t_{n-1} sd / sqrt(n)`, sd with divisor n - 1.

    Two standard errors would give an 81.6% interval with three runs, and an 88% interval with five.

    Args:
      values: independent and roughly normal along the axis, such as the same metric of runs with several seeds.
      axis: of length n.
      confidence: that the interval contains the true mean, in (0, 1).

    Returns:
      float64, with the other axes of `values`; infinite if n is 1, since one run says nothing about noise.

    Raises:
      ValueError: there is no such axis or it is empty, or the confidence is not between 0 and 1.

    Examples:
      >>> print(half_width([0.90, 0.91, 0.92]).round(4), half_width([0.9, 0.9]), half_width([0.9]))
      0.0248 0.0 inf
    """
    values = np.asarray(values, np.float64)
    if not values.ndim:
        raise ValueError(f"values must have an axis of runs, got the number {values}")
    if not isinstance(axis, int | np.integer) or not -values.ndim <= axis < values.ndim:
        raise ValueError(f"axis must be one of values, in [{-values.ndim}, {values.ndim}), got {axis!r}")
    number = values.shape[axis]
    if number < 1:
        raise ValueError("values must not be empty along the axis")
    if not isinstance(confidence, int | float | np.number) or not 0 < confidence < 1:
        raise ValueError(f"confidence must be > 0 and < 1, got {confidence!r}")
    if number == 1:
        return np.full(np.delete(values.shape, axis), np.inf)
    t = stdtrit(number - 1, (1 + float(confidence)) / 2)
    return np.asarray(t * values.std(axis, ddof=1) / np.sqrt(number))

"""How many a fraction of so many is: of rows, coordinates, clients or samples."""

import math


def part_of(fraction: float, number: int) -> int:
    """`floor(fraction * number)`; a product within rounding error of an integer is that integer.

    Args:
      fraction: >= 0; it must be known.
      number: >= 0.

    Examples:
      >>> print(part_of(0.29, 100), int(0.29 * 100))
      29 28
    """
    return math.floor(fraction * number + 1e-9)

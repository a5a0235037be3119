"""Which sums of a program a GPU may add in any order."""

from experiments.accelerators.hlo import computations


def scatters_in_any_order(text: str) -> int:
    """Scatters of floats to places that the program does not know to differ: threads come in any order.

    Args:
      text: optimized HLO, as `compiled.as_text()`.
    """
    lines = [line for body in computations(text)[0].values() for line in body if line.op == "scatter"]
    floats = [line for line in lines if line.shape.lstrip("(").startswith(("f", "bf", "c"))]
    return sum("unique_indices=true" not in line.rest for line in floats)

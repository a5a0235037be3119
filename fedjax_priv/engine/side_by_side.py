"""How many rows are computed side by side, and in which form: by the platform a program is lowered for, and by sizes.

A CPU core is fastest on what fits its cache. An accelerator runs one kernel after another, a few microseconds each
whatever its size, so it is fastest on as many rows as its memory holds.
"""

from collections.abc import Callable

import jax
from jaxtyping import PyTree

from fedjax_priv import _validate

CPU_CACHE_BYTES = 2**22
"""What rows side by side may hold on a CPU core: 4 MiB, a core's own cache and its share of the common one."""
ACCELERATOR_BYTES = 2**32
"""What rows side by side may hold on a GPU or TPU: 4 GiB, a quarter of the memory of a TPU v5e, the smallest."""


def by_platform(cpu: Callable[..., PyTree], accelerator: Callable[..., PyTree], *args: PyTree) -> PyTree:
    """`cpu(*args)` in a program that is lowered for a CPU, `accelerator(*args)` in one for anything else.

    Both are traced, one is compiled. Both must return the same structure, shapes and dtypes.

    Args:
      cpu: the form for a CPU.
      accelerator: the form for a GPU or TPU.
      *args: pytrees of arrays.

    Example:
      >>> import jax.numpy as jnp
      >>> float(by_platform(jnp.sum, jnp.max, jnp.ones(3)))  # here on a CPU
      3.0
    """
    return jax.lax.platform_dependent(*args, cpu=cpu, default=accelerator)


def fitting(row_bytes: int, most: int, budget: int) -> int:
    """How many rows fit a budget: at least 1, at most `most`.

    Args:
      row_bytes: what one row holds while it is computed.
      most: how many rows there are.
      budget: bytes, such as `CPU_CACHE_BYTES` or `ACCELERATOR_BYTES`.

    Raises:
      ValueError: an argument is not a positive integer.

    Example:
      >>> fitting(row_bytes=2**20, most=100, budget=CPU_CACHE_BYTES)
      4
    """
    _validate.integer(row_bytes=row_bytes, most=most, budget=budget)
    return max(1, min(most, budget // row_bytes))

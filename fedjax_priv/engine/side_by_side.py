"""How many rows are computed side by side, and in which form: by the platform a program is lowered for, and by sizes.

A CPU core is fastest on what fits its cache. An accelerator runs one kernel after another, a few microseconds each
whatever its size, so it is fastest on as many rows as its memory holds.
"""

import functools
from collections.abc import Callable

import jax
from jax.sharding import Mesh
from jaxtyping import PyTree

from fedjax_priv import _validate

CPU_CACHE_BYTES = 2**20
"""What rows side by side may hold on a CPU: 1 MiB, the second-level cache of a core."""
ACCELERATOR_BYTES = 2**32
"""What rows side by side may hold on a GPU or TPU: 4 GiB, a quarter of the memory of a TPU v5e, the smallest."""


traced_for = jax.make_user_context(None)
"""What is traced inside, as a context, is for a "cpu", a "gpu", a "tpu" or any other "accelerator"; None: not known."""
_GPUS = ("cuda", "rocm")


def by_platform(
    cpu: Callable[..., PyTree],
    accelerator: Callable[..., PyTree],
    *args: PyTree,
    gpu: Callable[..., PyTree] | None = None,
) -> PyTree:
    """`cpu(*args)` in a program that is lowered for a CPU, `accelerator(*args)` in one for anything else.

    All forms are traced, one is compiled; where an enclosing choice has been made, only that one is traced. They must
    return the same structure, shapes and dtypes.

    Args:
      cpu: the form for a CPU.
      accelerator: the form for a GPU or TPU.
      *args: pytrees of arrays.
      gpu: the form for a GPU, if it is another one.

    Examples:
      >>> import jax.numpy as jnp
      >>> float(by_platform(jnp.sum, jnp.max, jnp.ones(3)))  # here on a CPU
      3.0
    """
    forms, known = {"cpu": cpu, "gpu": gpu or accelerator, "tpu": accelerator}, traced_for.value
    if known == "accelerator" and gpu is None:
        return accelerator(*args)
    if known in forms:
        return forms[known](*args)
    own = {} if known else {"cpu": functools.partial(_for, "cpu", cpu)}
    if gpu is not None:
        own |= {name: functools.partial(_for, "gpu", gpu) for name in _GPUS}
    rest = functools.partial(_for, "tpu" if gpu else "accelerator", accelerator)
    return jax.lax.platform_dependent(*args, **own, default=rest)


def on_devices_of(mesh: Mesh | None, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """`function`, in which the devices of a mesh, if any, not the platform lowered for, decide `by_platform`."""
    if mesh is None:
        return function
    platform = _platform_of(mesh)
    return functools.partial(_for, "gpu" if platform in _GPUS else platform, function)


def is_of_cpus(mesh: Mesh | None) -> bool:
    """Whether clients are spread over CPU cores, which compute small blocks one after another."""
    return mesh is not None and _platform_of(mesh) == "cpu"


def _platform_of(mesh: Mesh) -> str:
    return mesh.devices.flat[0].platform


def _for(platform: str, function: Callable[..., PyTree], *args: PyTree) -> PyTree:
    with traced_for(platform if platform in ("cpu", "gpu", "accelerator") else "tpu"):
        return function(*args)


def side_by_side(function: Callable[..., PyTree], row_bytes: int, most: int) -> Callable[..., PyTree]:
    """`function(rows, *args)` as a function of `args`, with as many rows at once as fit where it will run.

    There are at least two: a loop over single rows costs more than the cache saves.

    Args:
      function: the same for any number of rows at once, an integer from 1 to `most`.
      row_bytes: what one row holds while it is computed.
      most: how many rows there are.
    """
    fit = (fitting(row_bytes, most, budget) for budget in (CPU_CACHE_BYTES, ACCELERATOR_BYTES))
    cpu, accelerator = (min(most, max(2, rows)) for rows in fit)
    if cpu == accelerator:
        return functools.partial(function, cpu)
    return functools.partial(by_platform, functools.partial(function, cpu), functools.partial(function, accelerator))


def fitting(row_bytes: int, most: int, budget: int) -> int:
    """How many rows fit a budget: at least 1, at most `most`.

    Args:
      row_bytes: what one row holds while it is computed.
      most: how many rows there are.
      budget: bytes, such as `CPU_CACHE_BYTES` or `ACCELERATOR_BYTES`.

    Raises:
      ValueError: an argument is not a positive integer.

    Examples:
      >>> fitting(row_bytes=2**20, most=100, budget=CPU_CACHE_BYTES)
      1
    """
    _validate.integer(row_bytes=row_bytes, most=most, budget=budget)
    return max(1, min(most, budget // row_bytes))

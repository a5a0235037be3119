"""What JAX needs on a CPU to be fast: a device for each core, arrays read where they lie, rows read by all cores."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float


def one_cpu_device_per_core() -> None:
    """On a single device, XLA leaves cores idle in a round of small clients.

    Sets `jax_num_cpu_devices` to the number of cores this process may use, unless the program or user has set it.

    It has no effect once JAX has started its backends, or on programs that use only the first device.
    """
    chosen = jax.config.values["jax_num_cpu_devices"] >= 0 or "xla_force_host_platform_device_count" in os.environ.get(
        "XLA_FLAGS", ""
    )
    if chosen:
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        jax.config.update("jax_num_cpu_devices", cores)
    except RuntimeError:  # the backends have started
        return


@jax.jit
def finite_rows(rows: Float[Array, "g d"]) -> Bool[Array, " g"]:
    """Which rows are finite: a product with zeros is the fastest way to read them, on every core."""
    zeros = jnp.zeros(rows.shape[1:], rows.dtype)
    return jnp.isfinite(jnp.matmul(rows, zeros, precision=jax.lax.Precision.HIGHEST))


_ALIGNMENT = 64
"""Bytes: JAX on a CPU reads an array where it lies if its address is a multiple, and copies it, slowly, if not."""


def read_in_place(rows: np.ndarray) -> Array:
    """The same numbers as float32 on the device, copied at most once; they may stay in the memory of `rows`."""
    if rows.dtype != np.float32 or rows.ctypes.data % _ALIGNMENT or not rows.flags.c_contiguous:
        space = np.empty(4 * rows.size + _ALIGNMENT, np.uint8)
        first = -space.ctypes.data % _ALIGNMENT
        copy = space[first : first + 4 * rows.size].view(np.float32).reshape(rows.shape)
        np.copyto(copy, rows, casting="unsafe")
        rows = copy
    return jax.device_put(rows, may_alias=True)

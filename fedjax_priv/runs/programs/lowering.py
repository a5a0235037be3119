"""A program's digest before compilation, its memory afterwards, and the free memory of devices."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import psutil
from jaxtyping import PyTree


class LoweredProgram(NamedTuple):
    """A program that is not compiled yet."""

    digest: str  # different programs have different digests
    out_info: PyTree  # shapes and dtypes of its outputs
    compile: Callable[[], Any]  # -> jax.stages.Compiled


def lower(program: Any, *args: Any) -> LoweredProgram:
    """Traces and lowers a jitted function; the digest includes the constants that it closes over."""
    traced = program.trace(*args)
    lowered = traced.lower()
    digest = hashlib.sha256(lowered.compiler_ir("stablehlo").operation.get_asm().encode())
    for constant in traced.jaxpr.consts:
        digest.update(_bytes(constant))
    return LoweredProgram(digest.hexdigest(), lowered.out_info, lowered.compile)


def _bytes(constant: Any) -> bytes:
    is_key = jnp.issubdtype(constant.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(constant) if is_key else constant).tobytes()


def peak_bytes(compiled: Any) -> int:
    """Bytes of memory that a program takes on one device, without its code; a donated buffer counts once."""
    of = compiled.memory_analysis()
    return of.argument_size_in_bytes + of.output_size_in_bytes + of.temp_size_in_bytes - of.alias_size_in_bytes


def free_bytes(devices: Sequence[Any]) -> int:
    """Free bytes of the fullest of `devices`; on a CPU, without such statistics, free memory divided by the devices."""
    stats = [device.memory_stats() or {} for device in devices]
    if all("bytes_limit" in of for of in stats):
        return min(of["bytes_limit"] - of["bytes_in_use"] for of in stats)
    return psutil.virtual_memory().available // len(devices)

"""One JAX device per CPU core: on a single device, XLA leaves cores idle in a round of small clients."""

import os

import jax


def one_cpu_device_per_core() -> None:
    """Sets `jax_num_cpu_devices` to the number of cores this process may use, unless the program or user has set it.

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

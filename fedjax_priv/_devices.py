"""One JAX device per CPU core, since XLA leaves cores idle in a round of small clients on one device."""

import os

import jax


def one_cpu_device_per_core() -> None:
    """Sets `jax_num_cpu_devices` to the cores this process may use, unless someone has chosen already.

    Has no effect once JAX has started its backends, nor on programs that do not ask for more than the first device.
    """
    chosen = jax.config.values["jax_num_cpu_devices"] >= 0 or "xla_force_host_platform_device_count" in os.environ.get(
        "XLA_FLAGS", ""
    )
    if chosen:
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        jax.config.update("jax_num_cpu_devices", cores)
    except RuntimeError:  # the backends are up
        return

"""Private, communication-efficient and Byzantine-robust federated learning, a whole round in one jitted function."""

from fedjax_priv._devices import one_cpu_device_per_core

one_cpu_device_per_core()

__version__ = "0.1.0"

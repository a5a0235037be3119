"""Private, communication-efficient and Byzantine-robust federated learning, a whole round in one jitted function."""

from fedjax_priv._devices import one_cpu_device_per_core

one_cpu_device_per_core()

from fedjax_priv import aggregators, channels, clients, crypto, data, layers, losses, metrics, models, systems  # noqa: E402
from fedjax_priv.base import Algorithm, ClientData, Cohort, RoundInfo, RoundState  # noqa: E402
from fedjax_priv.blocks import clients_mesh, fastest_block  # noqa: E402
from fedjax_priv.keep import Keep  # noqa: E402
from fedjax_priv.round import federated_round  # noqa: E402
from fedjax_priv.simulation import simulate  # noqa: E402
from fedjax_priv.status import Status, describe  # noqa: E402
from fedjax_priv.sweep import sweep  # noqa: E402

__version__ = "0.1.0"
__all__ = [
    "Algorithm", "ClientData", "Cohort", "Keep", "RoundInfo", "RoundState", "Status",
    "aggregators", "channels", "clients", "clients_mesh", "crypto", "data", "describe", "fastest_block",
    "federated_round", "layers", "losses", "metrics", "models", "simulate", "sweep", "systems",
]  # fmt: skip

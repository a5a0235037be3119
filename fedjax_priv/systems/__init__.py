"""Published systems, each one expression over the parts."""

from fedjax_priv.systems.fedavg import fedavg
from fedjax_priv.systems.secagg import secagg

__all__ = ["fedavg", "secagg"]

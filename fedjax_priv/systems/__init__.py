"""Published systems, each one expression over the parts."""

from fedjax_priv.systems.common_secagg import common_secagg
from fedjax_priv.systems.fedavg import fedavg
from fedjax_priv.systems.secagg import secagg
from fedjax_priv.systems.sparse_fedavg import sparse_fedavg
from fedjax_priv.systems.sparse_secagg import sparse_secagg

__all__ = ["common_secagg", "fedavg", "secagg", "sparse_fedavg", "sparse_secagg"]

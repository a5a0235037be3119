"""Published systems, each one expression over the parts."""

from fedjax_priv.systems.cdp_fl import cdp_fl
from fedjax_priv.systems.common_secagg import common_secagg
from fedjax_priv.systems.dp_sgd import dp_sgd
from fedjax_priv.systems.f2ed import f2ed
from fedjax_priv.systems.fedavg import fedavg
from fedjax_priv.systems.fedrep import fedrep
from fedjax_priv.systems.rcgd_ef import rcgd_ef
from fedjax_priv.systems.robust_fedavg import robust_fedavg
from fedjax_priv.systems.secagg import secagg
from fedjax_priv.systems.share import share
from fedjax_priv.systems.sparse_fedavg import sparse_fedavg
from fedjax_priv.systems.sparse_secagg import sparse_secagg
from fedjax_priv.systems.wireless import wireless

__all__ = [
    "cdp_fl", "common_secagg", "dp_sgd", "f2ed", "fedavg", "fedrep", "rcgd_ef", "robust_fedavg", "secagg", "share",
    "sparse_fedavg", "sparse_secagg", "wireless",
]  # fmt: skip

"""SparseSecAgg (Ergun, Sami, Guler 2021): what its masks cost, hide and converge to.

A `Setting` holds the numbers of a round; the functions about privacy take one.

* `selection`: `Setting`; which coordinates users send (eqs. 13, 14, 144).
* `privacy`: the paper's own measures: Theorem 2's count of honest users, Fig. 4(b)'s revealed fraction.
* `components`: what the server can separate, which contradicts Theorem 2.
* `thresholded_opening`: what the server would read if only coordinates with enough senders were opened.
* `upload`: bytes and their tail (Theorem 1), recovery (Corollary 2), room for a pair.
* `convergence`: Theorem 4 (eqs. 29-31), printed and repaired.
"""

from fedjax_priv.theory.sparse_secagg.components import component_fraction, connected_probability, isolated_fraction
from fedjax_priv.theory.sparse_secagg.convergence import (
    ConvergenceBound,
    Problem,
    convergence_bound,
    learning_rate,
    sampling_variance,
)
from fedjax_priv.theory.sparse_secagg.privacy import (
    aggregated_honest_clients,
    aggregated_honest_clients_limit,
    aggregated_honest_clients_variance,
    revealed_fraction,
    secagg_aggregated_honest_clients,
)
from fedjax_priv.theory.sparse_secagg.selection import (
    Setting,
    both_selected_probability,
    pair_probability,
    selection_covariance,
    selection_probability,
)
from fedjax_priv.theory.sparse_secagg.thresholded_opening import (
    kept_fraction,
    opened_fraction,
    opened_sum_fraction,
    senders,
)
from fedjax_priv.theory.sparse_secagg.upload import (
    compression_ratio,
    pair_overflow_probability,
    recovery_probability,
    upload_bits,
    upload_std,
    upload_tail,
    upload_tail_hoeffding,
)

__all__ = [
    "ConvergenceBound", "Problem", "Setting", "aggregated_honest_clients", "aggregated_honest_clients_limit",
    "aggregated_honest_clients_variance", "both_selected_probability", "component_fraction", "compression_ratio",
    "connected_probability", "convergence_bound", "isolated_fraction", "kept_fraction", "learning_rate",
    "opened_fraction", "opened_sum_fraction", "pair_overflow_probability", "pair_probability", "recovery_probability",
    "revealed_fraction", "sampling_variance", "secagg_aggregated_honest_clients", "selection_covariance",
    "selection_probability", "senders", "upload_bits", "upload_std", "upload_tail", "upload_tail_hoeffding",
]  # fmt: skip

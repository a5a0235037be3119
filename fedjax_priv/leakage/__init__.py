"""What a server that follows the protocol learns nevertheless: measured from its view, and by an attack on it.

- `selection_measures`: the SparseSecAgg paper's privacy measures, from which coordinates clients select.
- `separation_attack`: reads values and small sums of honest clients from the view of a secure sum.
- `opened_sums`: the sums that thresholded opening gives away, by how many honest clients are in them.
- `residual_masks`: uploads without the masks the server knows, the first step of that attack.
- `colluders`: what colluding users tell the server: keys and shares.
- `known_secrets`: the secrets that the server and colluders know together.
- `component_sampling`: what can be separated, simulated without values or masks for thousands of users.
- `fraction`: fractions of the values sent, with standard errors.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.layers.mask import secagg_protocol
    from fedjax_priv.layers.secure_sum.masked_sum import Protocol
    from fedjax_priv.layers.sparse_mask import sparse_protocol
    from fedjax_priv.leakage.colluders import Colluders, colluders_of_round
    from fedjax_priv.leakage.component_sampling import sample_components
    from fedjax_priv.leakage.fraction import Fraction, ratio
    from fedjax_priv.leakage.opened_sums import OpenedSums, opened_honest
    from fedjax_priv.leakage.residual_masks import Residuals, residuals
    from fedjax_priv.leakage.selection_measures import (
        honest_clients,
        observe_overlap,
        observe_privacy,
        overlap,
        revealed_fraction,
        selections,
        sparse_selections,
    )
    from fedjax_priv.leakage.separation_attack import Reading, separate
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Colluders", "Fraction", "OpenedSums", "Protocol", "Reading", "Residuals", "colluders_of_round", "honest_clients",
    "observe_overlap", "observe_privacy", "opened_honest", "overlap", "ratio", "residuals", "revealed_fraction",
    "sample_components", "secagg_protocol", "selections", "separate", "sparse_protocol", "sparse_selections",
]  # fmt: skip

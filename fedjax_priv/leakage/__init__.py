"""What a server that keeps to the protocol learns all the same: measured from its view, and by an attack on it."""

from fedjax_priv.layers.mask import secagg_protocol
from fedjax_priv.layers.secure_sum.masked_sum import Protocol
from fedjax_priv.layers.sparse_mask import sparse_protocol
from fedjax_priv.leakage.colluders import Colluders, colluders_of_round
from fedjax_priv.leakage.component_sampling import sample_components
from fedjax_priv.leakage.fraction import Fraction, ratio
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

__all__ = [
    "Colluders",
    "Fraction",
    "Protocol",
    "Reading",
    "Residuals",
    "colluders_of_round",
    "honest_clients",
    "observe_overlap",
    "observe_privacy",
    "overlap",
    "ratio",
    "residuals",
    "revealed_fraction",
    "sample_components",
    "secagg_protocol",
    "selections",
    "separate",
    "sparse_protocol",
    "sparse_selections",
]  # fmt: skip

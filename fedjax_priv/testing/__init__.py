"""The laws of a layer, as checks for one of your own; all layers of the package pass them."""

from fedjax_priv.testing.layer_laws import (
    NUM_CLIENTS,
    NUM_PARAMS,
    Case,
    check_bits,
    check_draws,
    check_layer,
    check_round_trip,
    check_unbiased,
)
from fedjax_priv.testing.single_layer_round import cohort_of, run_layer, survivors, wire

__all__ = [
    "NUM_CLIENTS", "NUM_PARAMS", "Case",
    "check_bits", "check_draws", "check_layer", "check_round_trip", "check_unbiased",
    "cohort_of", "run_layer", "survivors", "wire",
]  # fmt: skip

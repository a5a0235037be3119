"""Checks of the laws that every layer must obey; run them on your own layer.

- `layer_laws`: the checks, and the `Case` they take.
- `single_layer_round`: a cohort by hand, and one round of one layer.
"""

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

"""Figures that a run's bar and log show."""

import numpy as np

from fedjax_priv.base import Link
from fedjax_priv.runs.records.result_dataset import megabytes


def test_megabytes_are_means_over_clients_of_all_rounds_and_phases_both_ways():
    """Bits `[runs, rounds, clients]` of two runs; in float64, since float32 cannot hold their sums."""
    rng = np.random.default_rng(0)
    bits = {phase: Link(*rng.integers(2**31, 2**32, (2, 2, 3, 5), np.uint32)) for phase in ("share", "upload")}
    every = np.stack([way for link in bits.values() for way in link]).astype(np.float64)
    np.testing.assert_allclose(megabytes(bits), every.sum((0, 2)).mean(-1) / 8e6, rtol=1e-12)

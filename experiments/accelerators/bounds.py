"""What the round of each case may cost at most, and what is asked of it."""

from typing import NamedTuple

ASKED = {
    "fedavg-h200-1000": 200, "secagg-h200-100": 3_000, "sparse_secagg-h200-100": 5_000, "cdp_fl-h200-100": 3_000,
    "fedrep-h200-100": 3_000, "lightsecagg-h200-100": 5_000, "one_shot_secagg-h200-100": 5_000,
    "thresholded_secagg-h200-100": 5_000, "secagg-h200-1000": 30_000, "sparse_secagg-h200-1000": 10_000,
}  # fmt: skip
"""Kernels in sequence that we want; a case that has more is in bold in the table."""


class Bound(NamedTuple):
    """A program that costs more has got worse. Bounds are what is reached, with a tenth to spare."""

    kernels: int
    temporary_bytes: float
    moved_bytes: float
    loops: int = 0  # of unknown length


BOUNDS: dict[str, Bound] = {
    "fedavg-h200-100": Bound(150, 0.3e9, 2.1e9),
    "secagg-h200-100": Bound(1_720, 0.36e9, 16e9),
    "sparse_secagg-h200-100": Bound(960, 0.5e9, 5.6e9),
    "cdp_fl-h200-100": Bound(1_430, 0.43e9, 20e9),
    "fedrep-h200-100": Bound(710, 0.3e9, 3.1e9),
    "wireless-h200-100": Bound(170, 0.3e9, 2.5e9),
    "lightsecagg-h200-100": Bound(2_320, 1.8e9, 8.5e9),
    "one_shot_secagg-h200-100": Bound(2_810, 0.36e9, 4.1e9),
    "flamingo-h200-100": Bound(1_550, 0.38e9, 16e9),
    "thresholded_secagg-h200-100": Bound(1_390, 0.6e9, 6.9e9),
    "fedavg-tpu-100": Bound(870, 0.1e9, 2.1e9),
    "wireless-tpu-100": Bound(1_030, 0.1e9, 2.1e9),
    "fedavg-tpu_2x2-100": Bound(640, 0.1e9, 0.52e9),
    "secagg-tpu_2x2-100": Bound(2_160, 3.3e9, 11e9),
    "wireless-tpu_2x2-100": Bound(1_030, 0.1e9, 0.59e9),
    "secagg-tpu-100": Bound(2_860, 3.6e9, 43e9),
    "sparse_secagg-tpu-100": Bound(4_420, 0.6e9, 14e9),
    "cdp_fl-tpu-100": Bound(2_410, 3.4e9, 44e9),
    "fedrep-tpu-100": Bound(2_390, 0.3e9, 3.2e9),
    "sparse_secagg-tpu_2x2-100": Bound(4_260, 0.3e9, 3.6e9),
    "cdp_fl-tpu_2x2-100": Bound(1_940, 3.3e9, 11e9),
    "fedrep-tpu_2x2-100": Bound(2_460, 0.3e9, 0.85e9),
    "fedavg-h200-1000": Bound(140, 2.2e9, 21e9),
    "secagg-h200-1000": Bound(13_100, 3.7e9, 1.3e12),
    "sparse_secagg-h200-1000": Bound(1_040, 4.5e9, 62e9),
    "cdp_fl-h200-1000": Bound(24_400, 1.5e9, 1.3e12),
    "fedrep-h200-1000": Bound(730, 2.3e9, 29e9),
    "wireless-h200-1000": Bound(170, 2.2e9, 25e9),
    "fedavg-tpu-1000": Bound(960, 1.8e9, 16e9),
    "sparse_secagg-tpu-1000": Bound(20_200, 8.3e9, 190e9),
    "fedrep-tpu-1000": Bound(2_570, 3.9e9, 30e9),
    "wireless-tpu-1000": Bound(1_170, 2.8e9, 21e9),
    "fedavg-tpu_2x2-1000": Bound(990, 0.41e9, 5.3e9),
    "sparse_secagg-tpu_2x2-1000": Bound(7_230, 2.1e9, 48e9),
    "fedrep-tpu_2x2-1000": Bound(2_630, 0.71e9, 8.9e9),
    "wireless-tpu_2x2-1000": Bound(1_150, 0.41e9, 6.4e9),
    "fedavg_uneven-h200-1000": Bound(160, 1.7e9, 11e9, loops=3),
    "fedavg_cnn-h200-100": Bound(460, 1.8e9, 53e9),
    "fedavg_cnn-tpu-100": Bound(1_800, 3.4e9, 49e9),
    "secagg-tpu-1000": Bound(68_800, 11e9, 3.4e12),
    "cdp_fl-tpu-1000": Bound(70_980, 6.2e9, 3.4e12),
    "secagg-tpu_2x2-1000": Bound(18_100, 6e9, 900e9),
    "cdp_fl-tpu_2x2-1000": Bound(15_960, 6e9, 870e9),
    "lightsecagg-h200-1000": Bound(14_200, 4.5e9, 106e9),
    "sparse_secagg-h200-10000": Bound(4_900, 11.5e9, 1.3e12),
}

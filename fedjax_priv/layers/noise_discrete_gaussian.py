"""Discrete Gaussian noise that clients add to integers before a modular sum, which becomes differentially private.

Kairouz, Liu and Steinke, "The distributed discrete Gaussian mechanism for federated learning with secure aggregation"
(ICML 2021). A sum of n such numbers of parameter s is only nearly one of parameter `sqrt(n) s`; what that costs is in
`theory.discrete_gaussian`, and is little from s = 1 on.
"""

import functools

import numpy as np
from jaxtyping import Array, Int32

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.keys import per_client
from fedjax_priv.layers.secure_sum.alias_table import BITS, AliasTable, alias_table, symmetric
from fedjax_priv.layers.stacking import stateless

MAX_SCALE = 2.0**14
"""Largest parameter; its table then has 2**18 places."""


def discrete_gaussian_noise(scale: float | Array) -> Layer:
    """`x -> x + n` for int32 `[b, d]`, `P[n = k] ~ exp(-k^2 / (2 s^2))` at each coordinate, independently.

    Noise comes after rounding, below `round_within`, and is within 2**-40 of its law in total variation at each
    coordinate, for ideal random words. It is drawn from a table, by integer arithmetic alone (a floating-point Gaussian
    has holes: Mironov 2012). From s = 1 on no number is beyond 9.4 s, or 8.3 s for the largest s. Byzantine clients add
    none.

    Args:
      scale: s, in grid points, in [0, 2**14]. The variance is s^2 from s = 1 on, to 7 digits, and less below.

    Raises:
      ValueError: `scale` is out of range or traced.

    Examples:
      >>> grid = round_within(2**10, max_norm=1.0)
      >>> send = stack(round=grid, noise=discrete_gaussian_noise(20.0), wrap=wrap(16), send=plain_ring(16))
    """
    _validate.known(scale=scale)
    _validate.non_negative(scale=scale)
    if scale > MAX_SCALE:
        raise ValueError(f"scale must be at most 2**14 grid points, got {float(scale):g}")
    return integer_noise(gaussian_table(float(scale)), "discrete Gaussian noise")


def integer_noise(table: AliasTable, purpose: str) -> Layer:
    """`x -> x + n` for int32 `[b, d]`, with magnitudes of `n` from the table and random signs."""

    def encode(key: Key, x: Int32[Array, "b d"], cohort: Cohort) -> Int32[Array, "b d"]:
        noise = per_client(lambda key: symmetric(key, x.shape[1], table, purpose), key, cohort.client)
        return x + only_rows(~cohort.byzantine, noise)

    return stateless(encode)


@functools.lru_cache(maxsize=8)
def gaussian_table(scale: float) -> AliasTable:
    """Of magnitudes, but for larger ones, which have a probability below 2**-63."""
    k = np.arange(int(10 * scale) + 2)
    with np.errstate(divide="ignore", over="ignore"):
        weight = np.exp(-(k**2) / (2 * scale**2)) if scale else (k == 0).astype(float)
    weight[1:] *= 2
    probability = weight / weight.sum()
    largest = int(np.flatnonzero(np.rint(probability * 2.0**BITS))[-1])
    return alias_table(probability[: largest + 1])

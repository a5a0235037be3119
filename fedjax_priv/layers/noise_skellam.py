"""Skellam noise that clients add to field elements before masking: the secure sum becomes differentially private.

Agarwal, Kairouz and Liu, "The Skellam mechanism for differentially private federated learning" (NeurIPS 2021). A
Skellam number is the difference of two Poisson numbers of one rate, and a sum of independent Skellam numbers is Skellam
too: u contributions of variance v leave noise of exactly Sk(u v) in a sum, whoever dropped out. Sums of discrete
Gaussians (Kairouz, Liu and Steinke 2021) are only nearly discrete Gaussian, which adds a term to their accountant.
"""

import functools
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer, Sent
from fedjax_priv.crypto import field
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.keys import per_client
from fedjax_priv.layers.noise_discrete_gaussian import integer_noise
from fedjax_priv.layers.rounded_norm import MAX_VALUE, is_within, squared_norm_bound
from fedjax_priv.layers.secure_sum.alias_table import BITS, AliasTable, alias_table, symmetric
from fedjax_priv.layers.stacking import stateless
from fedjax_priv.status import Status

MAX_VARIANCE = 2.0**28
"""Largest variance of one client's noise; its table then has 2**18 places."""


def skellam_noise(noise_variance: float | Array, *, max_norm: float | Array, max_terms: int) -> Layer:
    """`x -> x + n`, `n ~ Sk(noise_variance)` at each coordinate, for field elements `[b, d]` of bounded norm.

    All quantities are in grid points of `quantize(levels, ...)`, which stands above, with `clip` above that. Rounding
    can make a vector longer, so a client whose `sum_l x_l**2`, computed in integers, is above
    `squared_norm_bound(max_norm, d)` sends only noise. A vector clipped to `max_norm` gets that long with probability
    below 2**-40, which is the only bias this adds. (Kairouz et al. round again instead.) Byzantine clients send
    anything, and no noise. A value that could make a sum wrap, noise included, sets `FIELD_OVERFLOW`.

    Noise is within 2**-40 of Skellam in total variation at each coordinate, for ideal random words; the words are as
    good as `crypto.prg` says. It is drawn from a table, since `jax.random.poisson` computes in float32: at a rate of
    10**5 it fails a chi-square test, and at 5 10**7 it returns only multiples of 4 (JAX 0.10).

    Args:
      noise_variance: of each client's noise at a coordinate, in squared grid points, in [0, 2**28].
      max_norm: Euclidean norm of a client's vector before rounding, in grid points, > 0.
      max_terms: most uploads in a sum.

    Raises:
      ValueError: an argument is out of range or traced; or, when a round is traced, vectors are so long that a sum of
        `max_terms` could wrap, or could have values >= 2**16.

    Examples:
      >>> noise = skellam_noise(400.0, max_norm=100.0, max_terms=10)
      >>> send = stack(clip=clip(1.0), quantize=quantize(100.0, 10), noise=noise, send=plain_field())
    """
    _validate.known(max_norm=max_norm)
    _validate.positive(max_norm=max_norm)
    _validate.integer(max_terms=max_terms)
    table, largest = _checked_table(noise_variance)
    max_norm = float(max_norm)
    room = field.HALF // max_terms - largest

    def encode(key: Key, x: UInt32[Array, "b d"], cohort: Cohort) -> UInt32[Array, "b d"]:
        bound = squared_norm_bound(max_norm, x.shape[1])
        if math.isqrt(bound) > min(room, MAX_VALUE - 1):
            raise ValueError(
                f"max_norm must leave values of at most {min(room, MAX_VALUE - 1)} grid points once {x.shape[1]} "
                f"coordinates are rounded, got {max_norm:g}, which leaves {math.isqrt(bound)}: choose fewer levels"
            )
        z = field.to_signed(x)
        sent = is_within(z, bound) | cohort.byzantine
        noise = per_client(lambda key: skellam(key, x.shape[1], table), key, cohort.client)
        return field.add(jnp.where(sent[:, None], x, 0), field.from_signed(only_rows(~cohort.byzantine, noise)))

    def overflow(x: Array, y: Array) -> Sent:
        fits = (jnp.abs(field.to_signed(x)) <= room).all(1)
        return Sent(status=jnp.where(fits, 0, int(Status.FIELD_OVERFLOW)))

    return stateless(encode, sent=overflow)


def integer_skellam_noise(noise_variance: float | Array) -> Layer:
    """`x -> x + n`, `n ~ Sk(noise_variance)` at each coordinate, for int32 `[b, d]` below `round_within`.

    The noise of `skellam_noise` without its check of norms, for modular sums. Byzantine clients add none.

    Args:
      noise_variance: of each client's noise at a coordinate, in squared grid points, in [0, 2**28].

    Raises:
      ValueError: `noise_variance` is out of range or traced.

    Examples:
      >>> grid = round_within(2**10, max_norm=1.0)
      >>> send = stack(round=grid, noise=integer_skellam_noise(400.0), wrap=wrap(16), send=plain_ring(16))
    """
    return integer_noise(_checked_table(noise_variance)[0], "skellam noise")


def skellam(key: Key, d: int, table: AliasTable) -> Int32[Array, " d"]:
    """`d` independent Skellam numbers: magnitudes from the table, and a random bit for the sign."""
    return symmetric(key, d, table, "skellam noise")


def largest_skellam(noise_variance: float | Array) -> int:
    """The largest magnitude that the noise of a client has at a coordinate, in grid points.

    Raises:
      ValueError: `noise_variance` is out of range or traced.
    """
    return _checked_table(noise_variance)[1]


def _checked_table(noise_variance: float | Array) -> tuple[AliasTable, int]:
    _validate.known(noise_variance=noise_variance)
    _validate.non_negative(noise_variance=noise_variance)
    if noise_variance > MAX_VARIANCE:
        given = f"got {float(noise_variance):g}: levels**2 times the variance, so choose fewer levels"
        raise ValueError(f"noise_variance must be at most 2**28 squared grid points, {given}")
    return _table(float(noise_variance))


@functools.lru_cache(maxsize=8)
def _table(variance: float) -> tuple[AliasTable, int]:
    """Table of magnitudes, `P[|n| = k] = 2 e^-v I_k(v)`, and the largest one; larger ones have probability below
    2**-63.
    """
    from scipy.special import ive  # slow to import

    k = np.arange(int(10 * math.sqrt(variance)) + 60)
    probability = ive(k, variance) * np.where(k > 0, 2, 1)
    largest = int(np.flatnonzero(np.rint(probability * 2.0**BITS))[-1])
    return alias_table(probability[: largest + 1]), largest

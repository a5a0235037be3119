"""Whether a vector is short, by random projections of it: the check of RiseFL (Zhu et al., arXiv 2311.15310)."""

import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, UInt32

from fedjax_priv.crypto import field
from fedjax_priv.crypto.matrix import matmul
from fedjax_priv.keys import Key
from fedjax_priv.layers.noise_discrete_gaussian import gaussian_table
from fedjax_priv.layers.rounded_norm import is_within_any
from fedjax_priv.layers.secure_sum.alias_table import symmetric

PROJECTIONS = 1000
"""k, of RiseFL, whose proofs have the published size for it."""
HONEST_REJECTED = 2.0**-128
"""Probability that projections reject a vector at the bound, if they were normal numbers."""
DEVIATION = 4
"""Of a number of a projection."""
LARGEST_BOUND = (field.HALF // (28 * DEVIATION)) ** 2
"""Largest squared bound: projections of vectors twice as long are elements of the field, 14 standard deviations wide,
but for a probability below 2**-128."""
_CHUNK = 1024


def is_within_by_projections(key: Key, x: UInt32[Array, "b d"], bound: int) -> Bool[Array, " b"]:
    """Whether `sum_t <a_t, x>**2 <= gamma s**2 bound`, for k random vectors of deviation s, the same for all rows.

    A row of squared norm `c**2 bound` passes with probability `F_{chi^2_k}(gamma / c**2)`. Each number of `a_t` is a
    discrete Gaussian, whose moments are those of the normal law to 100 digits, so that all is computed in integers and
    is the same in every block and on every device; RiseFL's code rounds normal numbers to 2**-24. A row of more than
    twice the bound in norm, which passes with probability below 2**-128, never does.

    Args:
      key: of the projections; nobody who chooses `x` may know it.
      x: field elements.
      bound: largest squared norm, at most `LARGEST_BOUND`.
    """
    near = is_within_any(field.to_signed(x), 4 * bound)
    return near & is_within_any(field.to_signed(projected(key, x)), math.floor(_gamma() * DEVIATION**2 * bound))


def projected(key: Key, x: UInt32[Array, "b d"]) -> UInt32[Array, "b k"]:
    """`<a_t, x>` modulo q for each row; 1,024 coordinates at a time, whose numbers are drawn anew in each block."""
    b, d = x.shape
    chunks = -(-d // _CHUNK)
    size = -(-d // chunks)
    parts = jnp.pad(x, ((0, 0), (0, chunks * size - d))).reshape(b, chunks, size).swapaxes(0, 1)
    table = gaussian_table(float(DEVIATION))

    def add(total: Array, of: tuple[Array, Array]) -> tuple[Array, None]:
        chunk, part = of
        drawn = symmetric(jax.random.fold_in(key, chunk), size * PROJECTIONS, table, "random projections")
        return field.add(total, matmul(part, field.from_signed(drawn.reshape(size, PROJECTIONS)))), None

    start = jnp.zeros((b, PROJECTIONS), jnp.uint32)
    return jax.lax.scan(add, start, (jnp.arange(chunks), parts))[0]


@functools.cache
def _gamma() -> float:
    """The quantile of chi^2_k that is exceeded with probability `HONEST_REJECTED`."""
    from scipy.special import gammainccinv  # slow to import

    return 2 * float(gammainccinv(PROJECTIONS / 2, HONEST_REJECTED))

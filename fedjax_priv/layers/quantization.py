"""Unbiased stochastic rounding into the field, where secure sums are exact."""

import jax.numpy as jnp
from jaxtyping import Array, Float, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer, Received, Sent
from fedjax_priv.crypto import field
from fedjax_priv.crypto.prg import philox, seed_of
from fedjax_priv.keys import per_client
from fedjax_priv.layers.fixed_point import without_gradient
from fedjax_priv.layers.in_the_clear import range_status
from fedjax_priv.layers.stacking import stateless
from fedjax_priv.status import Status

LARGEST = 2.0**31 - 128
"""The largest float32 that is a signed field element."""


def quantize(levels: float | Array, max_terms: int) -> Layer:
    """`phi(c Q_c(x))` with `c = levels` (SparseSecAgg, eqs. 15-17), decoded to a sum of `Q_c(x)`.

    `Q_c(x)` is a random multiple of 1/c with variance at most 1/(4 c^2). Draws have 24 bits, so its mean is above `x`
    by less than 2**-24 of a grid point, and is `x` if `c x` is a multiple of 2**-24.

    Args:
      levels: grid points c per unit; if c is a power of two, `c x` is exact.
      max_terms: most values in a sum. A client sets `FIELD_OVERFLOW` if a sum of `max_terms` values as large as its own
        could exceed +-(q-1)/2 and wrap; a value that is not finite sets `NOT_FINITE`. Each client checks only itself,
        so no sum of honest clients wraps unnoticed, but a sum that other clients would have kept in range is lost too.
        The server learns who it is, also under masks: `clip` above bounds values, and nobody has to report any.

    Byzantine clients do not report themselves. A value of theirs beyond the field saturates at +-(2**31 - 128), the
    last float32 below (q-1)/2, so one of them can move a sum by q/2 grid points at a coordinate. Two that saturate in
    one sum wrap, as do a saturated value and an honest one of the same sign: to choose the sum, attack the field
    elements (`attacks.on_field_elements`). NaN has no element, and is refused whoever sends it.

    Raises:
      ValueError: `levels` is not > 0, or `max_terms` is not an integer from 1 to (q-1)/4.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> x, grid = jnp.array([[0.25, -0.25]]), quantize(4, max_terms=10)
      >>> print(jax.jit(grid.encode)(jax.random.key(0), (), (), x, cohort_of(1))[0])  # 1 and q - 1
      [[         1 4294967290]]
    """
    levels = _validate.positive(levels=levels)
    limit = _limit(max_terms)

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> UInt32[Array, "b d"]:
        scaled = without_gradient(levels * x)
        low = jnp.floor(scaled)
        up = _uniform(key, cohort.client, x.shape[1]) < scaled - low
        return field.from_signed(jnp.clip(low + up.astype(jnp.float32), -LARGEST, LARGEST).astype(jnp.int32))

    def decode(received: Received) -> Received:
        return received._replace(value=field.to_signed(received.value).astype(jnp.float32) / levels)

    def sent(x: Array, y: Array) -> Sent:
        no_element = jnp.isnan(levels * x).any(1)
        return Sent(status=range_status(levels * x, limit), refused=jnp.where(no_element, int(Status.NOT_FINITE), 0))

    return stateless(encode, decode, sent=sent)


def largest_summand(levels: float | Array, max_terms: int) -> float | Array:
    """A magnitude of which `max_terms` values on the grid add up without wrapping, however each is rounded."""
    return _limit(max_terms) * (1 - 2.0**-20) / levels


def _limit(max_terms: int) -> int:
    """In grid points: `max_terms` values below it add up without wrapping, each rounded up."""
    _validate.integer(max_terms=max_terms)
    half = field.HALF
    if max_terms > half // 2:
        raise ValueError(
            f"max_terms must be at most (q-1)/4 = {half // 2}, so that a value other than 0 fits, got {max_terms}"
        )
    return half // max_terms - 1


def _uniform(key: Key, client: Array, d: int) -> Float[Array, "b d"]:
    """As `drawn`, one row per client."""

    return per_client(lambda key: drawn(seed_of(key), 0, d), key, client)


def drawn(seed: UInt32[Array, " 2"], time: int | Array, d: int) -> Float[Array, " d"]:
    """Uniform on the multiples of 2**-24 in [0, 1), new each time. P[u < f] is f, rounded up to such a multiple."""
    return (philox.words(seed, "stochastic rounding", time, d) >> 8).astype(jnp.float32) * 2.0**-24

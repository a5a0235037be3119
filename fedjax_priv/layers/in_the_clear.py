"""Innermost layers of systems without secure aggregation."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fedjax_priv import _validate
from fedjax_priv._devices import finite_rows
from fedjax_priv.base import Cohort, Layer, Scaled, Sent
from fedjax_priv.crypto.modulus import ring
from fedjax_priv.layers.fixed_point import MAX_FIXED_POINT
from fedjax_priv.layers.group_sums import (
    element_bits,
    exact_sum,
    field_sum,
    fixed_point_sum,
    float_sum,
    message_bits,
)
from fedjax_priv.layers.secure_sum.public_factors import weighed
from fedjax_priv.layers.stacking import stateless
from fedjax_priv.status import Status


def plain(num_groups: int = 1, *, exact: bool = True) -> Layer:
    """Float32 uploads in the clear, summed by group.

    Args:
      num_groups: rows the server holds.
      exact: sum in fixed point, the same bits for every block size and number of devices; magnitudes >= 2**15 set
        `FIELD_OVERFLOW`. False: a float sum, which is faster, but its bits depend on block size and number of devices.

    Raises:
      ValueError: `exact` is no bool.

    Examples:
      >>> from fedjax_priv.testing import cohort_of, run_layer
      >>> key, x, alive = jax.random.key(0), jnp.array([[1.0], [3.0]]), jnp.array([True, True])
      >>> print(run_layer(stack(average=average(), send=plain()), key, x, cohort_of(2), alive)["received"].value)
      [[2.]]
    """
    _validate.one_of((True, False), exact=exact)
    limit = MAX_FIXED_POINT if exact else jnp.inf

    def scale(x: Scaled, cohort: Cohort) -> tuple[Scaled, Sent]:
        del cohort
        upload = jax.ShapeDtypeStruct((x.size,), jnp.float32)
        return x, Sent(message_bits(upload), refused=range_status(x.norm[:, None], limit))

    return stateless(
        sent=lambda x, y: Sent(message_bits(y, y.shape[0]), refused=range_status(x, limit), each=32),
        combine=fixed_point_sum(num_groups) if exact else float_sum(num_groups),
        scale=scale,
    )


def plain_field(num_groups: int = 1) -> Layer:
    """Field elements in the clear; a secure sum of the same uploads must equal this sum, bit for bit.

    Examples:
      >>> send = stack(mean=weighted_mean(), quantize=quantize(2**20, 10), send=plain_field())
    """
    sent = lambda x, y: Sent(message_bits(y, y.shape[0]), each=32)
    return stateless(sent=sent, combine=weighed(field_sum(num_groups)))


def plain_ring(bits: int, num_groups: int = 1) -> Layer:
    """Integers modulo 2**bits in the clear; a secure sum of the same uploads must equal this sum, bit for bit.

    Args:
      bits: B, of a number on the wire, from 2 to 32. Put `wrap(bits)` above.
      num_groups: rows the server holds.

    Raises:
      ValueError: an argument outside its range.

    Examples:
      >>> send = stack(round=round_within(2**10, max_norm=1.0), wrap=wrap(16), send=plain_ring(16))
    """
    modulus = ring(bits)
    sent = lambda x, y: Sent(element_bits(modulus, y), each=modulus.bits)
    return stateless(sent=sent, combine=exact_sum(modulus, num_groups))


def range_status(x: Float[Array, "b d"], limit: float | Array) -> Int[Array, " b"]:
    """Status bits of rows with a value that is not finite, or whose magnitude is not below `limit`."""
    status = jnp.where(jnp.abs(x).max(1) < limit, 0, int(Status.FIELD_OVERFLOW))  # on a CPU it may pass over NaN
    return jnp.where(finite_rows(x), status, int(Status.NOT_FINITE))

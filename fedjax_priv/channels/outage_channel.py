"""Digital uploads at a fixed rate: an upload is lost if the gain is too small for the rate."""

import math

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Channel, Cohort, Key, RowsOptional

MOST_BITS = 32
"""The largest rate, in bits per real channel use."""


def outage(fixed_rate: float | Array = 0.5, *, snr: float | Array = 1.0) -> Channel:
    """An upload arrives if its link carries the rate: `log2(1 + h_k**2 snr) / 2 >= r_0`, in bits per real channel use.

    The sender does not know its gain. A lost upload costs as many channel uses as one that arrives, and its client
    keeps its old state. `theory.digital_links` gives the probability of a loss in Rayleigh fading, and the best rate.

    Args:
      fixed_rate: r_0, above 0 and up to 32; may be traced.
      snr: P / N0 > 0, per channel use; may be traced.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> cohort = cohort_of(2)._replace(gain=jnp.array([0.5, 2.0]))
      >>> print(outage(1.0, snr=3.0).arrivals(jax.random.key(0), cohort))  # the second needs h^2 >= 1
      [False  True]
    """
    rate = _validate.up_to(MOST_BITS, fixed_rate=fixed_rate)
    needed = jnp.expm1(2 * math.log(2) * rate) if isinstance(rate, Array) else 2.0 ** (2 * float(rate)) - 1
    least = needed / _validate.positive(snr=snr)

    def arrivals(key: Key, cohort: Cohort) -> Array:
        del key
        return cohort.selected & (jnp.square(cohort.gain) >= least)

    def transmit(key: Key, y: PyTree, cohort: Cohort) -> tuple[PyTree, Array]:
        return y, arrivals(key, cohort)

    return Channel(RowsOptional(transmit, arrivals), lambda key, received: received)

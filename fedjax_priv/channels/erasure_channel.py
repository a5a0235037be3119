"""Uploads that do not arrive."""

import jax
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Channel, Cohort, Key, RowsOptional
from fedjax_priv.keys import per_client


def erasure(dropout: float | Array = 0.0, *, leave: float | Array = 0.0) -> Channel:
    """Each client drops out independently, before its upload or between upload and disclosure.

    Args:
      dropout: probability theta, in [0, 1), that a client is lost before it uploads.
      leave: probability, in [0, 1), that a client whose upload arrived is gone when shares are opened (the second
        survivor set of Bonawitz et al.).

    Raises:
      ValueError: a probability is outside [0, 1).

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> channel = erasure(dropout=0.3)
      >>> alive = jax.jit(channel.arrivals)(jax.random.key(0), cohort_of(1000))
      >>> print(round(float(alive.mean()), 1))  # of 1,000 uploads
      0.7
    """
    dropout = _validate.fraction(below_one=True, dropout=dropout)
    leave = _validate.fraction(below_one=True, leave=leave)

    def stays(key: Key, rate: float | Array, cohort: Cohort) -> bool | Array:
        if _validate.is_known_as(0, rate):
            return True
        return per_client(lambda k: jax.random.bernoulli(k, 1 - rate), key, cohort.client)

    def arrivals(key: Key, cohort: Cohort) -> Array:
        return cohort.selected & stays(key, dropout, cohort)

    def transmit(key: Key, y: PyTree, cohort: Cohort) -> tuple[PyTree, Array]:
        return y, arrivals(key, cohort)

    return Channel(
        RowsOptional(transmit, arrivals),
        lambda key, received: received,
        lambda key, alive, cohort: alive & stays(key, leave, cohort),
    )

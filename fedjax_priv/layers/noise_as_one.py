"""Noise of all clients that the channel draws as one: what a client sends for it, and what the channel reads.

Uploads are added in fixed point, with steps of 2^-45. Squares of small levels would be lost there. So two numbers are
sent: the variance as a fraction of the largest one, and the root of the level. Both are rounded up: noise is never less
than stated.
"""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from fedjax_priv.engine.quotients import quotient

NUMBERS = 2
_LARGEST = 2.0**14
"""What the largest share is sent as."""
_STEPS = 2.0**-44
"""Two steps of the sum: one is cut off, and one may be lost as gains are inverted."""


def numbers_for_noise(deviation: Float[Array, " b"], unit: ArrayLike, level: Array) -> Float[Array, "b 2"]:
    """The fraction `deviation^2 / unit`, at most 1, and the root of the level, as numbers of an upload.

    A deviation that is not known stays NaN.
    """
    share = jnp.where(deviation == 0, 0, _LARGEST * quotient(jnp.square(deviation), unit) + _STEPS)
    return jnp.stack([share, jnp.broadcast_to(jnp.sqrt(level) + _STEPS, share.shape)], axis=1)


def deviation_of_sum(sums: Float[Array, "g 2"], unit: ArrayLike, count: Int[Array, " g"]) -> Float[Array, "g 1"]:
    """The standard deviation of all noise that `count` clients sent the numbers for, as it is received."""
    share, root = sums[:, :1] / _LARGEST, sums[:, 1:] / jnp.maximum(count, 1)[:, None].astype(jnp.float32)
    return jnp.square(root) * jnp.sqrt(unit * share)

"""The sum of the rows and noise of the server: central differential privacy."""

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Aggregator, Kept, Key, Received
from fedjax_priv.server_noise.process import ServerNoise

FLOAT32_CAVEAT = (
    "noise of the server is float32: who sees its lowest bits may see more than the figures say (Mironov 2012)"
)
"""What everybody must know of a system with such a sum."""


def noisy_sum(noise: ServerNoise, deviation: float | Array, factor: float | Array = 1.0) -> Aggregator:
    """`factor (sum of the rows + deviation u)`, u `[d]` the noise of the round, whoever came.

    Without a row it is the noise alone, and the round does not fail: that nobody came is for the noise to hide. Nothing
    but the sum depends on data, so `factor` must be public, such as one over the expected number of clients (McMahan et
    al. 2018, arXiv 1710.06963, Algorithm 1). Divided by the number that came, the noise would tell that number.

    Args:
      noise: of unit deviation if it is independent, rows of `C^-1 z` if not.
      deviation: of the noise, or of its seed z, at a coordinate of the sum, >= 0; may be traced.
      factor: > 0; may be traced.

    Raises:
      ValueError: `noise` is none, or `deviation` or `factor` is out of range.

    Examples:
      >>> rule = noisy_sum(independent(), deviation=2.0, factor=0.01)  # of about 100 clients a round, clipped to 1
      >>> direction = rule(np.zeros((100, 1000)), key=jax.random.key(0))
      >>> print(round(float(direction.std()), 3))
      0.02
    """
    _validate.part(ServerNoise, "server_noise.independent()", noise=noise)
    deviation, factor = _validate.non_negative(deviation=deviation), _validate.positive(factor=factor)

    def apply(key: Key, state: PyTree, received: Received) -> tuple[Array, Kept]:
        total = jnp.where(received.count[:, None] > 0, received.value, 0.0).sum(0)
        drawn, state = noise.draw(key, state, total.size)
        return factor * (total + deviation * drawn), Kept(state, state)

    return Aggregator(noise.init, apply, lambda num_rows: 0, needs_rows=False)

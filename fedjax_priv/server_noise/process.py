"""The type of noise processes, and noise that is independent from round to round."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, PyTree

from fedjax_priv.base import Key
from fedjax_priv.crypto.normal_draws import normal


class ServerNoise(NamedTuple):
    """Noise that the server adds to the sum of each round, in units of its seed: rows of `C^-1 z`, `z ~ N(0, I)`.

    Round t gets row t times z C_clip. `draw` is called once in every attempt at a round, failed ones included, and its
    state has to move with each: an aggregator returns it as `Kept(state, state)`. Two attempts with one row would give
    the difference of two sums away.
    """

    init: Callable[[int], PyTree]  # (d) -> state
    draw: Callable[[Key, PyTree, int], tuple[Array, PyTree]]  # (key of the round, state, d) -> (noise [d], state)
    correlation: Any = None  # a type of `correlations`, for proofs; None: rounds are independent


def independent() -> ServerNoise:
    """`N(0, I)` in each round, whatever was drawn before.

    Examples:
      >>> noise = independent()
      >>> u, state = noise.draw(jax.random.key(0), noise.init(1000), 1000)
      >>> print(round(float(u.std()), 1))
      1.0
    """
    return ServerNoise(lambda d: (), lambda key, state, d: (normal(key, (d,)), state))

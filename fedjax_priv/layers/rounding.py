"""Unbiased stochastic rounding that is repeated until a vector is as short as a proof of privacy takes it to be."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer, Received
from fedjax_priv.crypto.prg import seed_of
from fedjax_priv.keys import per_client
from fedjax_priv.layers.fixed_point import without_gradient
from fedjax_priv.layers.quantization import LARGEST, drawn
from fedjax_priv.layers.rounded_norm import FAILURE, MAX_VALUE, is_within, squared_norm_bound
from fedjax_priv.layers.stacking import stateless

BETA = math.exp(-0.5)
"""Probability that a draw is too long, if not given: the paper's."""


def round_within(levels: float | Array, *, max_norm: float | Array, failure: float | Array = BETA) -> Layer:
    """Rounds `levels x` to integers at random, `[b, d]` float32 -> int32, drawn again until its norm is at most D2.

    Kairouz, Liu and Steinke 2021, Algorithm 1. A coordinate is rounded up with probability its fraction, to 24 bits
    upwards as in `quantize`, so a draw has the mean `levels x`; to repeat it biases it a little. With `c = levels
    max_norm`, D2^2 = min((c + sqrt(d))^2, c^2 + d/4 + sqrt(2 log(1/beta)) (c + sqrt(d)/2)), which a draw exceeds with
    probability at most beta. A vector that `tries(beta)` draws left too long, with probability below 2**-40, is rounded
    towards 0, which makes no vector longer. One that is too long even so, since nobody clipped it, or not finite,
    becomes 0: no client's data can make a round fail. Byzantine clients send what they like.

    The sum is decoded to float32, over `levels`.

    Args:
      levels: grid points per unit, 1/gamma.
      max_norm: Euclidean norm of `x`, as `clip` leaves it.
      failure: beta, in (0, 1); a larger one needs less noise and more draws.

    Raises:
      ValueError: an argument is out of range or traced; or, when a round is traced, D2 is 65,535 or more.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> x = jnp.array([[0.5, -0.25]])
      >>> print(jax.jit(round_within(4.0, max_norm=1.0).encode)(jax.random.key(0), (), (), x, cohort_of(1))[0])
      [[ 2 -1]]
    """
    _validate.known(levels=levels, max_norm=max_norm, failure=failure)
    _validate.positive(levels=levels, max_norm=max_norm)
    _validate.fraction(below_one=True, above_zero=True, failure=failure)
    levels, max_norm, failure = float(levels), float(max_norm), float(failure)

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Int32[Array, "b d"]:
        bound = squared_norm_bound(levels * max_norm, x.shape[1], failure)
        if math.isqrt(bound) >= MAX_VALUE:
            raise ValueError(
                f"levels must leave vectors of {x.shape[1]} coordinates shorter than {MAX_VALUE} grid points, got "
                f"{levels:g}, which leaves {math.isqrt(bound)}"
            )
        scaled = jnp.clip(jnp.where(jnp.isfinite(x).all(1, keepdims=True), levels * x, 0), -LARGEST, LARGEST)
        scaled = without_gradient(scaled)
        low = jnp.floor(scaled)
        seeds = per_client(seed_of, key, cohort.client)

        def draw(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            time, z, done = state
            up = jax.vmap(lambda seed: drawn(seed, time, x.shape[1]))(seeds) < scaled - low
            new = (low + up.astype(jnp.float32)).astype(jnp.int32)
            return time + 1, jnp.where(done[:, None], z, new), done | is_within(new, bound) | cohort.byzantine

        go_on = lambda state: (state[0] < tries(failure)) & ~state[2].all()
        start = jnp.int32(0), jnp.zeros_like(low, jnp.int32), jnp.zeros_like(cohort.byzantine)
        _, z, done = jax.lax.while_loop(go_on, draw, start)
        shorter = jnp.trunc(scaled).astype(jnp.int32)
        return jnp.where(done[:, None], z, jnp.where(is_within(shorter, bound)[:, None], shorter, 0))

    def decode(received: Received) -> Received:
        return received._replace(value=received.value.astype(jnp.float32) / levels)

    return stateless(encode, decode)


def tries(failure: float) -> int:
    """Draws after which all failed with a probability of at most 2**-40."""
    return math.ceil(math.log(FAILURE) / math.log(failure))

"""The noisy sum of updates that are clipped to a quantile of their norms, which the noisy sum itself follows."""

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Aggregator, Kept, Key, Received
from fedjax_priv.server_noise.process import ServerNoise


class Clipping(NamedTuple):
    """How the clipping norm follows the norms of updates (Andrew et al. 2021, arXiv 1905.03871)."""

    first: float | Array  # C_0, > 0, public
    quantile: float | Array  # gamma in [0, 1], fraction of the updates that should not be clipped
    rate: float | Array = 0.2  # eta_C >= 0, step of log C


class _State(NamedTuple):
    noise: PyTree
    log_clip: Float32[Array, ""]


def adaptive_noisy_sum(
    noise: ServerNoise, deviation: float, factor: float | Array, *, clipping: Clipping, bit: float, clients: float
) -> Aggregator:
    """`factor C_t (sum of the rows + deviation u)` without the last coordinate, which moves C_t.

    The last of d + 1 coordinates holds the sum of `bit (b_i - 1/2)` and noise; with `clients` = m, the expected number,
    `b~ = 1/2 + (that sum) / (bit m)` and `log C_{t+1} = log C_t - eta_C (b~ - gamma)`. All noise has one deviation, in
    units of C_t, which it does not depend on. Clients are told C_t as "clip_norm". It is public, since it follows from
    what was released before, and moves in failed rounds too.

    Args:
      noise: independent from round to round.
      deviation: of the noise at a coordinate, z_D >= 0.
      factor: > 0, public; may be traced.
      clipping: the first norm, and how it moves; may be traced.
      bit: size of the bit in the rows, > 0.
      clients: m, > 0, public.

    Raises:
      ValueError: an argument outside its range, or noise that is correlated over rounds, whose proofs are for one C.

    Examples:
      >>> clipping = Clipping(first=0.1, quantile=0.5)
      >>> rule = adaptive_noisy_sum(independent(), 1.0, 0.01, clipping=clipping, bit=0.5, clients=100)
    """
    _validate.part(ServerNoise, "server_noise.independent()", noise=noise)
    _validate.part(Clipping, "server_noise.Clipping(first=0.1, quantile=0.5)", clipping=clipping)
    first, rate = _validate.positive(clip=clipping.first), _validate.non_negative(clip_rate=clipping.rate)
    quantile, factor = _validate.fraction(clip_quantile=clipping.quantile), _validate.positive(factor=factor)
    _validate.non_negative(deviation=deviation)
    _validate.positive(bit=bit, clients=clients)
    if noise.correlation is not None:
        raise ValueError(f"noise must be independent where clip_quantile moves the clipping norm, got {noise}")

    def init(d: int) -> _State:
        return _State(noise.init(d + 1), jnp.log(jnp.asarray(first, jnp.float32)))

    def apply(key: Key, state: _State, received: Received) -> tuple[Array, Kept]:
        total = jnp.where(received.count[:, None] > 0, received.value, 0.0).sum(0)
        drawn, noises = noise.draw(key, state.noise, total.size)
        noisy = total + deviation * drawn
        share = 0.5 + noisy[-1] / (bit * clients)
        after = _State(noises, state.log_clip - rate * (share - quantile))
        return factor * jnp.exp(state.log_clip) * noisy[:-1], Kept(after, after)

    def tells(state: _State) -> Mapping[str, Array]:
        return {"clip_norm": jnp.exp(state.log_clip)}

    return Aggregator(init, apply, lambda num_rows: 0, needs_rows=False, tells=tells)

"""What correlated processes have in common: a row counter and a noise key that live as long as the run."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree, UInt32

from fedjax_priv.base import Key
from fedjax_priv.crypto.normal_draws import normal
from fedjax_priv.crypto.prg import seed_of
from fedjax_priv.server_noise.process import ServerNoise

Row = Callable[[Key, Int[Array, ""], PyTree, int], tuple[Array, PyTree]]
"""(noise key, t, buffers, d) -> (row t of C^-1 z, buffers)"""


class Stream(NamedTuple):
    """The state of a process: with it, a run that was stopped goes on with the same bits."""

    row: Int[Array, ""]  # t, rows drawn so far
    words: UInt32[Array, " 2"]  # of the noise key, from the key of the first round; meaningless before
    buffers: PyTree


def stream(correlation: Any, buffers: Callable[[int], PyTree], row: Row) -> ServerNoise:
    """The process whose row t is `row(noise key, t, buffers, d)`; `buffers(d)` are those before the first row."""

    def init(d: int) -> Stream:
        return Stream(jnp.int32(0), jnp.zeros(2, jnp.uint32), buffers(d))

    def draw(key: Key, state: Stream, d: int) -> tuple[Float[Array, " d"], Stream]:
        words = jnp.where(state.row == 0, seed_of(key), state.words)
        noise_key = jax.random.wrap_key_data(words, impl="threefry2x32")
        noise, after = row(noise_key, state.row, state.buffers, d)
        return noise, Stream(state.row + 1, words, after)

    return ServerNoise(init, draw, correlation)


def seed(key: Key, t: Int[Array, ""], d: int) -> Float[Array, " d"]:
    """z_t ~ N(0, I), the same whenever it is asked for."""
    return normal(jax.random.fold_in(key, t), (d,))

"""Common random coordinates: all clients of a round send the same ones, drawn from a public seed.

A secure sum below then needs no positions: its masks cover the k coordinates in the same order for everyone, and the
server learns of them what it learns of all coordinates without this layer, the sum over survivors. (The masks of
SparseSecAgg cover different coordinates for each pair, so much of what they hide can be separated.)
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, PyTree, UInt32

from fedjax_priv.base import Bits, Cohort, Key, Layer, Link, Received, Sent
from fedjax_priv.crypto.prg import seed_of
from fedjax_priv.layers.coordinate_sets import random_coordinates
from fedjax_priv.layers.group_sums import message_bits
from fedjax_priv.layers.sparsification import sparsifier


def common_coordinates(num_params: int, k: int, *, error_feedback: bool = False) -> Layer:
    """Cuts updates `[b, d]` to the round's `k` coordinates, `[b, k]`, and puts sums `[g, k]` back among zeros.

    The server draws a seed when a round opens and announces it, 64 bits to every client that takes part; both sides
    derive the coordinates from it, the same for all groups. Without error feedback sums are scaled by d / k, so their
    mean over seeds is the sum of the updates. With it they are sent unscaled, and a client keeps the rest for its next
    update; `layers.sparsification` says what it keeps if the upload is lost. An update that is not finite sets
    `NOT_FINITE`, whichever coordinates are drawn. Arguments and errors are those of `rand_k`.

    Examples:
      >>> send = stack(mean=public_weighted_mean(), cut=common_coordinates(1000, 50), send=plain())
    """

    def choose(key: Key, seed: Array, v: Array, client: Array) -> Array:
        return jnp.broadcast_to(announced(seed, num_params, k), (client.size, k))

    own = sparsifier(num_params, k, error_feedback, choose, unbiased=True)

    def advertise(key: Key, state: PyTree, cohort: Cohort) -> tuple[PyTree, Array, Bits]:
        seed = seed_of(key)
        down = jnp.where(cohort.selected, message_bits(seed), 0)
        return state, seed, {"coordinates": Link(jnp.zeros_like(down), down)}

    def encode(key: Key, memory: PyTree, seed: Array, x: Array, cohort: Cohort) -> tuple[Array, PyTree, Sent]:
        y, kept, sent = own.encode(key, memory, seed, x, cohort)
        return y.value, kept, sent

    def decode(header: tuple, seed: Array, received: Received) -> Received:
        del header
        sums = received.value
        rows = jnp.zeros((len(sums), num_params), sums.dtype)
        return received._replace(value=rows.at[:, announced(seed, num_params, k)].set(sums))

    return own._replace(advertise=advertise, encode=encode, decode=decode)


def announced(seed: UInt32[Array, "2"], num_params: int, k: int) -> Int32[Array, " k"]:
    """The coordinates of a round, from the seed that the server announces."""
    return random_coordinates(jax.random.wrap_key_data(seed, impl="threefry2x32"), num_params, k)

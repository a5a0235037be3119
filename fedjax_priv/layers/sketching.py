"""Random projections of updates, the same for all clients of a round."""

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, UInt32

from fedjax_priv.base import Bits, Cohort, Key, Layer, Link, Received, Sent
from fedjax_priv.crypto.prg import seed_of
from fedjax_priv.crypto.sketch import Sketched, projection
from fedjax_priv.layers.group_sums import message_bits
from fedjax_priv.layers.sparsification import check_width
from fedjax_priv.layers.stacking import stateless


def jl(num_params: int, k: int, *, dense: bool = False) -> Layer:
    """Projects updates `[b, d]` to `[b, k]` by a random matrix; rows are `Sketched`, which `aggregators.in_sketch`
    turns into a direction `[d]`.

    The server draws a seed when a round opens and announces it, 64 bits; it depends on nobody's data, so the projection
    costs no privacy. Clients get the direction as k numbers (the phase "model"), since they know the seed. Below a
    secure sum or noise, put those layers below this one.

    Args:
      num_params: d.
      k: from 1 to d.
      dense: a matrix of +-1/sqrt(k), in O(k d) memory, instead of a count sketch.

    Raises:
      ValueError: a size is not an integer >= 1, k is above `num_params`, or (when a round is traced) updates have
        another number of coordinates.

    Source: RobAJoL (Xia, Jahani-Nezhad, Bitar 2025, arXiv 2508.12978).

    Examples:
      >>> send = stack(mean=average(), sketch=jl(1000, 100), send=plain())
    """
    by = projection(num_params, k, dense=dense)

    def advertise(key: Key, state: tuple, cohort: Cohort) -> tuple[PyTree, Array, Bits]:
        del state
        seed = seed_of(key)
        none = jnp.zeros_like(cohort.client, jnp.uint32)
        down = lambda bits: Link(none, jnp.where(cohort.selected, jnp.uint32(bits), 0))
        return (), seed, {"sketch": down(message_bits(seed)), "model": down(32 * k)}

    def encode(
        key: Key, private: tuple, seed: UInt32[Array, "2"], x: Float[Array, "b d"], cohort: Cohort
    ) -> tuple[Array, tuple, Sent]:
        check_width(x, num_params)
        return by.project(seed, x), (), Sent()

    def decode(header: tuple, seed: UInt32[Array, "2"], received: Received) -> Received:
        rows = received.value
        return received._replace(value=Sketched(rows, jnp.broadcast_to(seed, (len(rows), 2))))

    return stateless()._replace(advertise=advertise, encode=encode, decode=decode)

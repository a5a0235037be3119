"""What a server does with sums of which some coordinates were not opened, and so have no value.

If clients choose coordinates at random, sums are divided by the fraction of values that were opened. If they choose the
largest, no factor makes the sum unbiased: the server announces what it opened, and clients keep the rest.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import ONE_DEVICE, Bits, Cohort, Kept, Key, Layer, Link, Placement, Received, Sent
from fedjax_priv.layers.coordinate_sets import check_sizes
from fedjax_priv.layers.in_the_clear import range_status
from fedjax_priv.layers.secure_sum import bitmap, bound_masks
from fedjax_priv.layers.secure_sum.thresholded_opening import Opened
from fedjax_priv.layers.sparsification import Sparse, check_width
from fedjax_priv.layers.stacking import stateless


def over_opened(stacked: Layer) -> Layer:
    """A stack that ends in `thresholded_masks`, its sums divided by the fraction of the values sent that were opened.

    n(l) survivors sent coordinate l, and the fraction is `q = sum_l n(l) 1[n(l) >= t] / sum_l n(l)`, which the server
    knows. A coordinate that was not opened stays 0. Suppose that the choice of coordinates does not depend on the
    values, and that all coordinates and all clients are equally likely. Then, over rounds in which something is opened,
    the mean of a sum is that without a threshold: the law of n(l) is the same for all l, so `E[n(l) 1[n(l) >= t] / q] =
    E[n(l)]`, and every client contributes to it equally.

    Args:
      stacked: layers, of which the innermost is `thresholded_masks`, which says t.

    Raises:
      ValueError: `stacked` is no layer, or another one is its innermost.

    Examples:
      >>> mask = thresholded_masks(plain_sparse_field(1000), num_values=1000, group_size=10, threshold=3)
      >>> few, grid = rand_k(1000, 500), on_sparse_values(quantize(2.0**16, 10))
      >>> send = over_opened(stack(few=few, quantize=grid, mask=mask))
    """
    _validate.part(Layer, "layers.stack(...)", stacked=stacked)
    if (threshold := stacked.sums.opens_at) is None:
        raise ValueError("stacked must be a stack that ends in layers.thresholded_masks, got one that opens sums whole")

    def decode(header: PyTree, public: PyTree, received: Received, placement: Placement = ONE_DEVICE) -> Received:
        rows = stacked.placed(placement).decode(header, public, received)
        number = _opened(header).contributors.astype(jnp.float32)
        share = jnp.where(number >= threshold, number, 0).sum() / jnp.maximum(number.sum(), 1)
        return rows._replace(value=jnp.where(share > 0, rows.value / jnp.where(share > 0, share, 1), 0))

    return stacked._replace(decode=decode)


def _opened(header: PyTree) -> Opened:
    """What `thresholded_masks` disclosed, whatever its name in a stack."""
    is_opened = lambda node: isinstance(node, Opened)
    return next(filter(is_opened, jax.tree.leaves(header, is_leaf=is_opened)))


class Pending(NamedTuple):
    """What a client carries until it is told which coordinates were opened."""

    update: Float32[Array, "n d"]  # what it had to send
    sent: UInt32[Array, "n w"]  # the coordinates it sent, a bitmap; none: it sent nothing that counted


def opened_top_k(num_params: int, k: int, *, num_clients: int, threshold: int) -> Layer:
    """The `k` largest coordinates of each update `[b, d]`, as a `Sparse`; clients keep what was not opened.

    When the next round opens, the server announces at which coordinates `threshold` uploads or more had been summed, d
    bits to every client whose upload was. A client adds to its next update what it did not send, and what it sent at
    coordinates that were not opened. `layers.sparsification` says what it keeps if an upload is lost.

    Everyone must take part in every round: what is announced is what bitmaps of the last round give.

    Args:
      num_params: coordinates of an update, d.
      k: coordinates sent.
      num_clients: clients of every round.
      threshold: t of the `thresholded_masks` below.

    Raises:
      ValueError: a number is not an integer >= 1, `k` is above `num_params`, or, when a round is traced, a cohort of
        another size or updates of another size.

    Examples:
      >>> masks = thresholded_masks(plain_sparse_field(1000), num_values=1000, group_size=10, threshold=3)
      >>> top, grid = opened_top_k(1000, 50, num_clients=10, threshold=3), on_sparse_values(quantize(2.0**16, 10))
      >>> send = stack(top=top, quantize=grid, mask=masks)
    """
    check_sizes(num_params, k=k)
    _validate.integer(num_clients=num_clients, threshold=threshold)

    def init(key: Key, n: int) -> Pending:
        return Pending(jnp.zeros((n, num_params), jnp.float32), jnp.zeros((n, -(-num_params // 32)), jnp.uint32))

    def advertise(key: Key, state: Pending, cohort: Cohort) -> tuple[Array, tuple, Bits]:
        if (n := cohort.client.size) != num_clients:
            raise ValueError(f"num_clients must be the size of every cohort, {n}, got {num_clients}")
        sent = bound_masks.sent(state.sent, num_params)
        opened = sent.sum(0) >= threshold
        told = jnp.where(sent.any(1), jnp.uint32(num_params), 0)
        memory = jnp.where(sent & opened[None], 0, state.update)
        return memory, (), {"opened": Link(jnp.zeros_like(told), told)}

    def encode(key: Key, memory: Array, public: tuple, x: Array, cohort: Cohort) -> tuple[Sparse, Kept, Sent]:
        check_width(x, num_params)
        v = x + memory
        position = jax.lax.top_k(jnp.abs(v), k)[1]
        sent = jax.vmap(lambda position: bitmap.pack(jnp.zeros(num_params, bool).at[position].set(True)))(position)
        kept = Kept(Pending(v, sent), Pending(memory, jnp.zeros_like(sent)), unsound=Pending(memory, sent))
        y = Sparse(jnp.take_along_axis(v, position, axis=1), position)
        return y, kept, Sent(status=range_status(v, jnp.inf))

    return stateless()._replace(init=init, advertise=advertise, encode=encode)

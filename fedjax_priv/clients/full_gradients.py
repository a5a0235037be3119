"""The gradient of all samples of each client of a block, piece by piece: a client costs what its own samples cost."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from fedjax_priv.base import ClientData
from fedjax_priv.clients.batch_gradients import mean_gradient
from fedjax_priv.clients.minibatches import clients_at, per_epoch, room, samples_at
from fedjax_priv.clients.narrowing import narrowing_loop
from fedjax_priv.engine.all_runs import largest_of_all_runs
from fedjax_priv.engine.side_by_side import by_platform
from fedjax_priv.losses import Loss

LEAST, MOST = 64, 16
"""A piece has `LEAST` samples or more, and there are up to `MOST` pieces."""

Gradients = tuple[Float32[Array, " b"], PyTree]


def full_gradients(loss: Loss) -> Callable[[PyTree, ClientData], Gradients]:
    """`(params, data) -> (sums of losses [b], gradients of mean losses [b, ...])`, float32, over each client's samples.

    All clients have the same parameters, so products with them run as one large product for all clients. The loss of a
    client without samples is 0, and its gradient arbitrary.
    """
    gradient = jax.vmap(mean_gradient(loss), in_axes=(None, 0, 0))

    def piece(params: PyTree, data: ClientData, size: int, number: Array) -> tuple[Array, PyTree, Array]:
        """The invalid samples repeat the first one of the client, so nothing is computed from padding."""
        place = number * size + jnp.arange(size)[None, :]
        valid = place < data.count[:, None]
        return *gradient(params, samples_at(data.examples, jnp.where(valid, place, 0)), valid), valid

    def step(params: PyTree, data: ClientData, size: int, number: Array, sums: Gradients) -> Gradients:
        total, grads, valid = piece(params, data, size, number)
        share = valid.sum(1) / jnp.maximum(data.count, 1)
        added = lambda sums, of_piece: sums + share.reshape(-1, *(1,) * (sums.ndim - 1)) * of_piece
        return sums[0] + total, jax.tree.map(added, sums[1], grads)

    def gradients(params: PyTree, data: ClientData) -> Gradients:
        space = room(data.examples)
        size, at_once = piece_size(space), lambda: piece(params, data, space, jnp.int32(0))[:2]
        if size == space:
            return at_once()
        zero = jax.tree.map(lambda w: jnp.zeros((data.count.size, *w.shape), jnp.float32), params)
        start, end = (jnp.zeros(data.count.size), zero), per_epoch(data.count, size)
        of = lambda data: functools.partial(step, params, data, size)

        def on_cpu() -> Gradients:
            """A block waits for its largest client. Where this one needs all pieces, one large piece is faster."""
            largest = largest_of_all_runs(end)
            in_pieces = lambda: jax.lax.fori_loop(0, largest, of(data), start)
            return jax.lax.cond(largest == math.ceil(space / size), at_once, in_pieces)

        return by_platform(on_cpu, lambda: narrowing_loop(lambda place: of(clients_at(data, place)), end, start))

    return gradients


def piece_size(samples: int) -> int:
    """Samples of a piece, where a client has room for so many.

    Examples:
      >>> piece_size(60), piece_size(100), piece_size(600), piece_size(5000)
      (60, 100, 67, 313)
    """
    return math.ceil(samples / max(1, min(MOST, samples // LEAST)))

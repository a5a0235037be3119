"""FedSGD: the gradient of all samples of each client, piece by piece, so that a client costs what its samples cost."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from fedjax_priv.base import ClientData, Cohort, Key, Local, Stated
from fedjax_priv.clients.batch_gradients import mean_gradient
from fedjax_priv.clients.control_variates import corrected_step
from fedjax_priv.clients.local_steps import LocalSteps
from fedjax_priv.clients.minibatches import checked_room, clients_at, per_epoch, room, samples_at, valid_samples
from fedjax_priv.clients.narrowing import narrowing_loop
from fedjax_priv.clients.one_step_updates import updates_of_one_step
from fedjax_priv.engine.all_runs import largest_of_all_runs
from fedjax_priv.engine.client_rows import flat_rows, rows_where
from fedjax_priv.engine.side_by_side import by_platform
from fedjax_priv.losses import Loss, checked_loss

LEAST, MOST = 64, 16
"""A piece has `LEAST` samples or more, and there are up to `MOST` pieces."""

Gradients = tuple[Float32[Array, " b"], PyTree]


def fedsgd(loss: Loss) -> Local:
    """FedSGD: the update is the gradient of the client's mean loss over all its samples, at the shared parameters.

    A client without samples has update 0 and loss 0.

    Args:
      loss: `(params, examples [k, ...]) -> [k]`.

    Raises:
      ValueError: `loss` is not a function of two arguments.

    Examples:
      >>> local = fedsgd(lambda params, x: x @ params)
    """
    loss = checked_loss(loss)
    gradients = full_gradients(loss)

    def apply(
        key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort
    ) -> tuple[Array, PyTree, Array]:
        checked_room(data, 1)
        total, grads = gradients(params, data)
        update = rows_where(data.count > 0, flat_rows(grads), jnp.zeros((), jnp.float32))
        return update, memory, total / jnp.maximum(data.count, 1).astype(jnp.float32)

    steps = LocalSteps("plain", None, 0.0, None, 1, None)
    sums = updates_of_one_step(loss, valid_samples, 1.0)
    return Local(lambda n, params: (), Stated(apply, steps, sums, corrected_step(apply), in_place=True))


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

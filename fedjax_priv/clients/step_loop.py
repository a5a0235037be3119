"""The loop of local SGD: a block of clients takes steps side by side, and each client stops after its own last step."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import ClientData
from fedjax_priv.clients.minibatches import clients_at, next_batch, no_order
from fedjax_priv.clients.narrowing import narrowing_loop
from fedjax_priv.clients.random_losses import GiveKeys
from fedjax_priv.engine.all_runs import largest_of_all_runs
from fedjax_priv.engine.client_rows import rows_like, rows_where
from fedjax_priv.engine.side_by_side import by_platform


class Block(NamedTuple):
    """What clients of a block train with."""

    keys: Array  # [b]
    data: ClientData
    rate: Array  # (), or [b]
    end: Array  # [b], steps
    start: PyTree  # [b, ...], parameters
    added: PyTree  # [b, ...], to each gradient; None: nothing


class Training(NamedTuple):
    """State of a block of clients between two local steps."""

    params: PyTree  # [b, ...]
    velocity: PyTree  # [b, ...]; None without momentum
    order: Array  # [b, k], shuffles of the current epochs, as far as they are used
    loss: Array  # [b], sum over the samples trained on
    samples: Array  # [b], how many


def training_loop(
    gradient: Callable, noisy: Callable, give_keys: GiveKeys, momentum: ArrayLike, batch_size: int, proximal: ArrayLike
) -> Callable[..., Training]:
    """A function that trains a block of clients from a start: client i takes `end[i]` steps, at most `most`.

    Args:
      gradient: `(params, examples, valid) -> (sums of losses [b], gradients)`, as `batch_gradient` returns it.
      noisy: `(keys, time, gradients) -> gradients`.
      give_keys: puts keys into the examples of a loss that draws.
      momentum: mu of `v <- mu v + g`.
      batch_size: samples in a batch.
      proximal: mu of FedProx.
    """
    pull = lambda g, w, first: g + proximal * (w - first)

    def step(block: Block, first: int, time: Array, state: Training) -> Training:
        active = time < block.end
        order, examples, valid = next_batch(
            block.keys, block.data, state.order, time, active, batch_size=batch_size, first=first
        )
        total, grads = gradient(state.params, give_keys(block.keys, time, examples), valid)
        grads = noisy(block.keys, time, grads)
        if not _validate.is_known_as(0, proximal):
            grads = jax.tree.map(pull, grads, state.params, block.start)
        moved = _descend(state.params, state.velocity, grads, block.rate, momentum, block.added)
        params, velocity = rows_where(active, moved, (state.params, state.velocity))
        samples = state.samples + valid.sum(1, dtype=jnp.float32)
        return Training(params, velocity, order, state.loss + total, samples)

    def train(start: Training, block: Block, most: int, *, even: bool) -> Training:
        """`even`: clients with samples take `most` steps, for which accelerators need one loop, of known length."""
        step_of = lambda block: functools.partial(step, block, most * batch_size)
        on_cpu = lambda: jax.lax.fori_loop(0, largest_of_all_runs(block.end), step_of(block), start)
        known = lambda: jax.lax.fori_loop(0, most, step_of(block), start)
        narrowing = lambda: narrowing_loop(lambda place: step_of(_at(block, place)), block.end, start)
        return by_platform(on_cpu, known if even else narrowing)

    return train


def _at(block: Block, place: Array) -> Block:
    """The clients of a block at some places."""
    take = lambda rows: jax.tree.map(lambda a: a[place], rows)
    rate = block.rate[place] if block.rate.ndim else block.rate
    data = clients_at(block.data, place)
    return Block(take(block.keys), data, rate, block.end[place], take(block.start), take(block.added))


def _descend(
    params: PyTree, velocity: PyTree, grads: PyTree, rate: Array, momentum: ArrayLike, added: PyTree
) -> tuple[PyTree, PyTree]:
    """The next parameters and velocity; without momentum the velocity is None and takes no memory."""
    if velocity is not None:
        velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, grads)
    along = grads if velocity is None else velocity
    along = along if added is None else jax.tree.map(jnp.add, along, added)
    step = lambda w, v: w - jnp.reshape(rate, (-1, *(1,) * (w.ndim - 1))) * v
    return jax.tree.map(step, params, along), velocity


def start_of(params: PyTree, memory: Array | None, data: ClientData, first: int, has_velocity: bool) -> Training:
    """All clients at the shared parameters; the velocity is the carried one, zero, or None."""
    block = data.count.size
    spread = jax.tree.map(lambda w: jnp.broadcast_to(w, (block, *w.shape)), params)
    velocity = jax.tree.map(jnp.zeros_like, spread) if has_velocity else None
    if memory is not None:
        velocity = rows_like(params, memory)
    return Training(spread, velocity, no_order(data, first), jnp.zeros(block), jnp.zeros(block))

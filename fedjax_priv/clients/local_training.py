"""Local training of a block of clients: minibatch SGD with momentum, and the single gradient of FedSGD.

Source: McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data", Algorithm 1.
The server subtracts an update: `w <- w - sum_i beta_i update_i`. It is flat, in the order of `ravel_pytree`.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, Float32, Int32, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import ClientData, Cohort, Key, Local, Stated
from fedjax_priv.clients.batch_gradients import batch_gradient, with_noise
from fedjax_priv.clients.control_variates import corrected_step
from fedjax_priv.clients.full_gradients import full_gradients
from fedjax_priv.clients.local_steps import Form, LocalSteps
from fedjax_priv.clients.minibatches import all_samples, clients_at, next_batch, no_order, per_epoch, room
from fedjax_priv.clients.narrowing import narrowing_loop
from fedjax_priv.clients.one_step_updates import updates_of_one_step
from fedjax_priv.clients.random_losses import GiveKeys, keyed
from fedjax_priv.engine.all_runs import largest_of_all_runs
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.engine.side_by_side import by_platform
from fedjax_priv.keys import per_client
from fedjax_priv.losses import Loss, RandomLoss, checked_loss

Schedule = Callable[[Array], Array]
"""`rounds [b] float32 -> [b]`: step sizes, from the number of rounds in which each client trained and was accepted."""
Trained = tuple[Float32[Array, "b d"], PyTree, Float32[Array, " b"]]
Corrected = tuple[Float32[Array, "b d"], PyTree, Float32[Array, " b"], Float32[Array, " b"]]


class _Scheduled(NamedTuple):
    """Client state under a schedule."""

    velocity: PyTree  # [n, d]; () if it is not carried
    rounds: Int32[Array, " n"]  # in which the client trained and its upload was accepted


class _Block(NamedTuple):
    """What clients of a block train with."""

    keys: Array  # [b]
    data: ClientData
    rate: Array  # (), or [b]
    end: Array  # [b], steps
    start: PyTree  # [b, ...], parameters
    added: PyTree  # [b, ...], to each gradient; None: nothing


class _Training(NamedTuple):
    """State of a block of clients between two local steps."""

    params: PyTree  # [b, ...]
    velocity: PyTree  # [b, ...]; None without momentum
    order: Array  # [b, k], shuffles of the current epochs, as far as they are used
    loss: Array  # [b], sum over the samples trained on
    samples: Array  # [b], how many


def local_sgd(
    loss: Loss | RandomLoss,
    *,
    learning_rate: ArrayLike | Schedule,
    batch_size: int,
    num_epochs: int | None = None,
    num_steps: int | None = None,
    momentum: ArrayLike = 0.0,
    carry_momentum: bool = False,
    sample_clip: float | Array | None = None,
    gradient_noise: float | Array = 0.0,
    proximal: ArrayLike = 0.0,
) -> Local:
    """Minibatch SGD of each client on its own data: `v <- momentum v + grad`, `w <- w - learning_rate v`.

    An epoch is `ceil(count / batch_size)` batches of a fresh shuffle of the client's samples; the last batch may be
    partial, and its gradient is the mean over its samples. Shuffles depend on the key, the client's number and the
    epoch, not on the cohort or the block. A client without samples has update 0 and loss 0. Parameters are float32,
    even if `loss` computes in another dtype. Training ends when the steps of all clients are done, which is known only
    at run time, so reverse-mode differentiation through it is impossible.

    Args:
      loss: `(params, examples [k, ...]) -> [k]`, or a `RandomLoss`.
      learning_rate: step size, > 0; may be traced. Or a schedule as in optax, >= 0: a client's step size in a round,
        from the number of rounds in which it trained and its upload was accepted (client state).
      batch_size: samples in a batch.
      num_epochs: passes over the client's data, each of `ceil(count / batch_size)` steps.
      num_steps: steps of every client, whatever its count. Give exactly one of `num_epochs` and `num_steps`.
      momentum: in [0, 1); may be traced.
      carry_momentum: keep the velocity from round to round as client state, `[n, d]`, instead of starting from zero;
        without effect where `momentum` is 0.
      sample_clip: G, the norm to which each sample's gradient is clipped; None: no clipping. The batch gradient is the
        sum of the clipped gradients divided by `batch_size`, which is public, even if the batch is partial. So one
        changed sample moves it by at most 2 G / batch_size. A loss that combines examples is refused
        (`clients.clipped_gradient`).
      gradient_noise: sigma; each client adds its own `N(0, sigma^2 I_d)` to the batch gradient of each step (CDP-FL,
        Algorithm 1). For a noise multiplier z of the sum, as in Opacus, use `sigma = z sample_clip / batch_size`.
      proximal: mu >= 0 of FedProx (Li et al. 2020, eq. 2): clients minimise their loss + mu/2 ||w - w_t||^2, w_t the
        parameters they start from. May be traced.

    Returns:
      A `Local` whose update is `params - params after training`, and whose loss is the mean over the samples trained
      on, each evaluated just before its step.

    Raises:
      ValueError: `loss` is not a function of two arguments, an argument is out of range, both or none of `num_epochs`
        and `num_steps` are given, or (when training is traced) `batch_size` exceeds the samples per client that `data`
        has room for, or a schedule does not return one number.

    Examples:
      >>> local = local_sgd(lambda params, x: x @ params, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> print(local.steps.batch_size, local.steps.num_epochs)
      10 1
    """
    rate_of = _rate(learning_rate)
    momentum = _validate.fraction(below_one=True, momentum=momentum)
    _validate.integer(batch_size=batch_size)
    _validate.one_of((True, False), carry_momentum=carry_momentum)
    duration = _duration(num_epochs, num_steps)
    proximal = _validate.non_negative(proximal=proximal)
    loss = checked_loss(loss)
    of_examples, give_keys = keyed(loss)
    gradient, noisy = batch_gradient(of_examples, batch_size, sample_clip), with_noise(gradient_noise)
    train = _training(gradient, noisy, give_keys, momentum, batch_size, proximal)
    has_velocity = not _is_zero(momentum)
    carries, scheduled = has_velocity and carry_momentum, callable(learning_rate)

    def init(n: int, params: PyTree) -> PyTree:
        velocity = jnp.zeros((n, ravel_pytree(params)[0].size)) if carries else ()
        return _Scheduled(velocity, jnp.zeros(n, jnp.int32)) if scheduled else velocity

    def apply(
        key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort, added: Array | None = None
    ) -> Trained:
        velocity, rounds = memory if scheduled else (memory, jnp.int32(0))
        rate = rate_of(rounds)
        capacity = _capacity(data, batch_size)
        keys = per_client(lambda key: key, key, cohort.client)
        most = duration(math.ceil(capacity / batch_size))
        _check_counted("num_steps" if num_epochs is None else "num_epochs", most, batch_size)
        end = duration(per_epoch(data.count, batch_size))
        start = _start(params, velocity if carries else None, data, most * batch_size, has_velocity)
        added = None if added is None else jax.vmap(ravel_pytree(params)[1])(added)
        end = jnp.where(data.count > 0, end, 0)
        block = _Block(keys, data, rate, end, start.params, added)
        final = train(start, block, most, even=num_epochs is None or capacity <= batch_size)
        update = _ravel(jax.tree.map(lambda w, new: w[None] - new, params, final.params))
        velocity = _ravel(final.velocity) if carries else velocity
        memory = _Scheduled(velocity, rounds + 1) if scheduled else velocity
        return update, memory, final.loss / jnp.maximum(final.samples, 1.0)

    def corrected(
        key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort, added: Array
    ) -> Corrected:
        rate = rate_of(memory.rounds if scheduled else ())
        trained = apply(key, memory, params, data, cohort, added)
        taken = jnp.where(data.count > 0, duration(per_epoch(data.count, batch_size)), 0)
        return *trained, rate * taken.astype(jnp.float32)

    plain: Form = "momentum from zero" if has_velocity else "plain"
    pulled = not _is_zero(proximal)
    form: Form = "remembering" if carries or scheduled or pulled else plain
    eta = None if callable(learning_rate) or form == "remembering" else learning_rate
    steps = LocalSteps(form, sample_clip, gradient_noise, batch_size, num_steps, num_epochs, momentum, eta)
    special = carries or scheduled or isinstance(loss, RandomLoss) or not _is_zero(gradient_noise)
    if num_steps != 1 or sample_clip is not None or special:
        return Local(init, Stated(apply, steps, corrected=corrected, in_place=True))
    sums = updates_of_one_step(loss, _first_batch(batch_size), rate_of(()))
    return Local(init, Stated(apply, steps, sums, corrected, in_place=True))


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

    def apply(key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort) -> Trained:
        _capacity(data, 1)
        total, grads = gradients(params, data)
        update = rows_where(data.count > 0, _ravel(grads), jnp.zeros((), jnp.float32))
        return update, memory, total / jnp.maximum(data.count, 1).astype(jnp.float32)

    steps = LocalSteps("plain", None, 0.0, None, 1, None)
    sums = updates_of_one_step(loss, _all_samples, 1.0)
    return Local(lambda n, params: (), Stated(apply, steps, sums, corrected_step(apply), in_place=True))


def _all_samples(key: Key, data: ClientData, cohort: Cohort) -> tuple[PyTree, Array]:
    """The examples of each client, and which are valid; the others repeat its first one."""
    del key, cohort
    valid = jnp.arange(_capacity(data, 1))[None, :] < data.count[:, None]
    return jax.tree.map(lambda a: rows_where(valid, a, a[:, :1]), all_samples(data.examples)), valid


def _first_batch(batch_size: int) -> Callable[[Key, ClientData, Cohort], tuple[PyTree, Array]]:
    """A function that returns the first batch of each client's first shuffle, and which of its examples are valid."""

    def batch(key: Key, data: ClientData, cohort: Cohort) -> tuple[PyTree, Array]:
        keys = per_client(lambda key: key, key, cohort.client)
        _capacity(data, batch_size)  # raises where no client has room for a batch
        start = no_order(data, batch_size), jnp.int32(0), data.count > 0
        return next_batch(keys, data, *start, batch_size=batch_size, first=batch_size)[1:]

    return batch


def _is_zero(number: Any) -> bool:
    """Whether a number is known to be 0; a traced one is not."""
    return _validate.is_known_as(0, number)


def _rate(learning_rate: ArrayLike | Schedule) -> Callable[[PyTree], Array]:
    """A function from the rounds of each client to their step sizes, `[b]`, or to one step size for all."""
    if not callable(learning_rate):
        if isinstance(learning_rate, str) or jnp.ndim(learning_rate):
            raise ValueError(f"learning_rate must be a number > 0, or a schedule as in optax, got {learning_rate!r}")
        constant = _validate.positive(learning_rate=learning_rate)
        return lambda rounds: jnp.asarray(constant, jnp.float32)

    _validate.takes("rounds", learning_rate=learning_rate)

    def of(rounds: Array) -> Array:
        """Schedules of optax take one number; some compare it with a list of theirs."""
        rate = jnp.asarray(learning_rate(rounds), jnp.float32)
        if rate.shape:
            raise ValueError(f"learning_rate must return one number, shape (), got {rate.shape}")
        return jnp.where(rate >= 0, rate, jnp.nan)

    return lambda rounds: jnp.vectorize(of)(rounds.astype(jnp.float32))


def _check_counted(name: str, most: int, batch_size: int) -> None:
    """Raises ValueError if int32, which counts samples of a client's steps, does not hold their number."""
    if most * batch_size >= 2**31:
        allowed = "must give a client fewer than 2**31 samples a round"
        raise ValueError(f"{name} {allowed}, got {most} steps of batch_size = {batch_size}")


def _duration(num_epochs: int | None, num_steps: int | None) -> Callable[[Any], Any]:
    """A function from a client's batches per epoch to the steps it takes."""
    if num_epochs is None and num_steps is not None:
        _validate.integer(num_steps=num_steps)
        return lambda length: num_steps
    if num_epochs is not None and num_steps is None:
        _validate.integer(num_epochs=num_epochs)
        return lambda length: num_epochs * length
    raise ValueError(f"exactly one of num_epochs and num_steps must be given, got {num_epochs!r} and {num_steps!r}")


def _training(
    gradient: Callable, noisy: Callable, give_keys: GiveKeys, momentum: ArrayLike, batch_size: int, proximal: ArrayLike
) -> Callable[..., _Training]:
    """A function that trains a block from a start, each client for its `end [b]` steps of at most `most`."""
    pull = lambda g, w, first: g + proximal * (w - first)

    def step(block: _Block, first: int, time: Array, state: _Training) -> _Training:
        active = time < block.end
        order, examples, valid = next_batch(
            block.keys, block.data, state.order, time, active, batch_size=batch_size, first=first
        )
        total, grads = gradient(state.params, give_keys(block.keys, time, examples), valid)
        grads = noisy(block.keys, time, grads)
        if not _is_zero(proximal):
            grads = jax.tree.map(pull, grads, state.params, block.start)
        moved = _descend(state.params, state.velocity, grads, block.rate, momentum, block.added)
        params, velocity = rows_where(active, moved, (state.params, state.velocity))
        samples = state.samples + valid.sum(1, dtype=jnp.float32)
        return _Training(params, velocity, order, state.loss + total, samples)

    def train(start: _Training, block: _Block, most: int, *, even: bool) -> _Training:
        """`even`: clients with samples take `most` steps, for which accelerators need one loop, of known length."""
        step_of = lambda block: functools.partial(step, block, most * batch_size)
        on_cpu = lambda: jax.lax.fori_loop(0, largest_of_all_runs(block.end), step_of(block), start)
        known = lambda: jax.lax.fori_loop(0, most, step_of(block), start)
        narrowing = lambda: narrowing_loop(lambda place: step_of(_at(block, place)), block.end, start)
        return by_platform(on_cpu, known if even else narrowing)

    return train


def _at(block: _Block, place: Array) -> _Block:
    """The clients of a block at some places."""
    take = lambda rows: jax.tree.map(lambda a: a[place], rows)
    rate = block.rate[place] if block.rate.ndim else block.rate
    data = clients_at(block.data, place)
    return _Block(take(block.keys), data, rate, block.end[place], take(block.start), take(block.added))


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


def _start(params: PyTree, memory: Array | None, data: ClientData, first: int, has_velocity: bool) -> _Training:
    """All clients at the shared parameters; the velocity is the carried one, zero, or None."""
    block = data.count.size
    spread = jax.tree.map(lambda w: jnp.broadcast_to(w, (block, *w.shape)), params)
    velocity = jax.tree.map(jnp.zeros_like, spread) if has_velocity else None
    if memory is not None:
        velocity = jax.vmap(ravel_pytree(params)[1])(memory)
    return _Training(spread, velocity, no_order(data, first), jnp.zeros(block), jnp.zeros(block))


def _capacity(data: ClientData, batch_size: int) -> int:
    """Samples per client that `data` has room for, at least a batch."""
    capacity = room(data.examples)
    if capacity < batch_size:
        raise ValueError(f"batch_size must be at most {capacity}, the samples a client has room for, got {batch_size}")
    return capacity


def _ravel(tree: PyTree) -> Float32[Array, "b d"]:
    return jax.vmap(lambda tree: ravel_pytree(tree)[0])(tree)

"""Local training by minibatch SGD with momentum, for any number of epochs or steps.

Source: McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data", Algorithm 1.
The server subtracts an update: `w <- w - sum_i beta_i update_i`. It is flat, in the order of `ravel_pytree`.
"""

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
from fedjax_priv.clients.local_steps import Form, LocalSteps
from fedjax_priv.clients.minibatches import checked_room, first_batch, per_epoch
from fedjax_priv.clients.one_step_updates import updates_of_one_step
from fedjax_priv.clients.random_losses import keyed
from fedjax_priv.clients.step_loop import Block, start_of, training_loop
from fedjax_priv.engine.client_rows import flat_rows, rows_like
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
    train = training_loop(gradient, noisy, give_keys, momentum, batch_size, proximal)
    has_velocity = not _is_zero(momentum)
    carries, scheduled = has_velocity and carry_momentum, callable(learning_rate)

    def init(n: int, params: PyTree) -> PyTree:
        velocity = jnp.zeros((n, ravel_pytree(params)[0].size)) if carries else ()
        return _Scheduled(velocity, jnp.zeros(n, jnp.int32)) if scheduled else velocity

    def steps_taken(data: ClientData) -> Array:
        return jnp.where(data.count > 0, duration(per_epoch(data.count, batch_size)), 0)

    def apply(
        key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort, added: Array | None = None
    ) -> Trained:
        velocity, rounds = memory if scheduled else (memory, jnp.int32(0))
        rate = rate_of(rounds)
        capacity = checked_room(data, batch_size)
        keys = per_client(lambda key: key, key, cohort.client)
        most = duration(math.ceil(capacity / batch_size))
        _check_counted("num_steps" if num_epochs is None else "num_epochs", most, batch_size)
        start = start_of(params, velocity if carries else None, data, most * batch_size, has_velocity)
        added = None if added is None else rows_like(params, added)
        block = Block(keys, data, rate, steps_taken(data), start.params, added)
        final = train(start, block, most, even=num_epochs is None or capacity <= batch_size)
        update = flat_rows(jax.tree.map(lambda w, new: w[None] - new, params, final.params))
        velocity = flat_rows(final.velocity) if carries else velocity
        memory = _Scheduled(velocity, rounds + 1) if scheduled else velocity
        return update, memory, final.loss / jnp.maximum(final.samples, 1.0)

    def corrected(
        key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort, added: Array
    ) -> Corrected:
        rate = rate_of(memory.rounds if scheduled else ())
        trained = apply(key, memory, params, data, cohort, added)
        return *trained, rate * steps_taken(data).astype(jnp.float32)

    remembers = carries or scheduled or not _is_zero(proximal)
    form: Form = "remembering" if remembers else "momentum from zero" if has_velocity else "plain"
    eta = None if remembers or callable(learning_rate) else learning_rate
    steps = LocalSteps(form, sample_clip, gradient_noise, batch_size, num_steps, num_epochs, momentum, eta)
    special = carries or scheduled or isinstance(loss, RandomLoss) or not _is_zero(gradient_noise)
    one_gradient = num_steps == 1 and sample_clip is None and not special
    sums = updates_of_one_step(loss, first_batch(batch_size), rate_of(())) if one_gradient else None
    return Local(init, Stated(apply, steps, sums, corrected, in_place=True))


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

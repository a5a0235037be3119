"""Adjacent inputs that differ in a sample whose gradient is crafted: a guarantee holds for any gradient of a sample.

The crafted gradient takes the place of the sample's before it is clipped, so clipping has to act, and in the norm.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from fedjax_priv.audit.canaries import unit
from fedjax_priv.audit.sample_canaries import check_sample, sample_gradient
from fedjax_priv.audit.worlds import Canary
from fedjax_priv.base import ClientData, Cohort, Key, Local
from fedjax_priv.losses import Loss

Training = Callable[[Loss], Local]
"""Local training on a loss."""
BEYOND = 3.0
"""Norm of a crafted gradient in clipping norms, at least."""


def scaled_canary(training: Training, loss: Loss, data: ClientData, params: PyTree) -> Canary:
    """The first sample of client 0, all ones, has its loss multiplied by plus or minus a large number.

    The two gradients are opposite. They have many entries of one size, so each can be below the clipping norm where the
    norm is far above it.

    Args:
      training: local training on a loss, such as `lambda loss: clients.local_sgd(loss, ...)`.
      loss: that is scaled.
      data: of all clients.
      params: where the gradient is scaled so that clipping has to act.

    Raises:
      ValueError: client 0 has no sample.
    """
    check_sample(data, 0, 0)
    examples = jax.tree.map(_with_ones, data.examples)
    example = jax.tree.map(lambda rows: rows[0, 0], examples)
    gradient = sample_gradient(loss)
    times = _times(gradient(params, example), clip_of(training(loss)))
    factor = jnp.ones(jax.tree.leaves(examples)[0].shape[:2])
    of = lambda sign: data._replace(examples=(examples, factor.at[0, 0].set(sign * times)))
    local = training(lambda params, rows: rows[1] * loss(params, rows[0]))
    return Canary((of(1), of(-1)), lambda _: local, lambda data: data, lambda params: unit(gradient(params, example)))


def spike_canary(
    training: Training, loss: Loss, data: ClientData, params: PyTree, coordinates: Sequence[int]
) -> Canary:
    """The gradient of the first sample of client 0 is a multiple of plus or minus one unit vector e_j (Dirac).

    Each trial has one j of `coordinates`. All noise that protects the sample is that of coordinate j. The other
    arguments and errors are those of `scaled_canary`.
    """
    check_sample(data, 0, 0)
    examples = jax.tree.map(jnp.asarray, data.examples)
    spikes = jnp.zeros(jax.tree.leaves(examples)[0].shape[:2]).at[0, 0].set(BEYOND * clip_of(training(loss)))
    number, size = jnp.asarray(coordinates), ravel_pytree(params)[0].size
    repeat = lambda a: jnp.broadcast_to(a, (len(coordinates), *a.shape))

    def local(given: tuple[ClientData, Array]) -> Local:
        at = given[1]

        def spiked(params: PyTree, rows: tuple) -> Float[Array, " k"]:
            examples, spike = rows
            return jnp.where(spike == 0, loss(params, examples), spike * ravel_pytree(params)[0][at])

        return training(spiked)

    of = lambda sign: (jax.tree.map(repeat, data._replace(examples=(examples, sign * spikes))), number)
    toward = jax.nn.one_hot(number, size)
    return Canary((of(1), of(-1)), local, lambda given: given[0], lambda params: toward, variants=len(coordinates))


def scaled_in_first_round(canary: Canary) -> Canary:
    """A `scaled_canary` whose sample has gradient 0 in all rounds but the first."""

    def local(given: PyTree) -> Local:
        trained = canary.local(given)

        def apply(key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort) -> tuple:
            examples, factor = data.examples
            silent = (cohort.client == 0) & (cohort.round > 0)
            factor = factor.at[:, 0].set(jnp.where(silent, 0.0, factor[:, 0]))
            return trained.apply(key, memory, params, data._replace(examples=(examples, factor)), cohort)

        return trained._replace(apply=apply)

    return canary._replace(local=local)


def clip_of(local: Local) -> Array:
    """The norm that gradients of samples are clipped to; 1 where they are not."""
    clip = None if local.steps is None else local.steps.clip
    return jnp.asarray(1.0 if clip is None else clip, jnp.float32)


def _with_ones(rows: Array) -> Array:
    """The first sample of client 0 all ones; labels stay."""
    rows = jnp.asarray(rows)
    return rows.at[0, 0].set(1) if jnp.issubdtype(rows.dtype, jnp.floating) else rows


def _times(gradient: Array, clip: Array) -> Array:
    """How often the loss counts: its gradient is beyond the clip, its largest entry just below if that is more."""
    norm, largest = jnp.linalg.norm(gradient), jnp.abs(gradient).max()
    return clip * jnp.maximum(BEYOND / jnp.maximum(norm, 1e-30), 0.9 / jnp.maximum(largest, 1e-30))

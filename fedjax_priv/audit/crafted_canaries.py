"""Adjacent inputs that differ in a sample with a crafted gradient: a guarantee must hold for any gradient of a sample.

The crafted gradient replaces the sample's gradient before clipping. Its norm is above the clipping norm, so clipping
must act, and must act on the norm rather than on entries.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from fedjax_priv.audit.canaries import unit
from fedjax_priv.audit.sample_canaries import check_sample, sample_gradient
from fedjax_priv.audit.worlds import Canary
from fedjax_priv.base import ClientData, Cohort, Key, Local
from fedjax_priv.losses import Loss

Training = Callable[[Loss], Local]
"""Local training on a loss."""
BEYOND = 3.0
"""The least norm of a crafted gradient, in clipping norms."""


def scaled_canary(training: Training, loss: Loss, data: ClientData, params: PyTree) -> Canary:
    """The loss of client 0's first sample, an input of ones, is multiplied by plus or minus a large number.

    The two gradients are opposite. Many of their entries have the same size, so each entry can be below the clipping
    norm while the gradient's norm is far above it.

    Args:
      training: local training on a loss, such as `lambda loss: clients.local_sgd(loss, ...)`.
      loss: the loss that is scaled.
      data: of all clients.
      params: the factor is chosen so that clipping must act on the gradient at these parameters.

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
    toward = lambda params: unit(gradient(params, example))
    return Canary((of(1), of(-1)), lambda _: local, lambda data: data, toward, silenced=_silenced)


def spike_canary(
    training: Training, loss: Loss, data: ClientData, params: PyTree, coordinates: Sequence[int]
) -> Canary:
    """The gradient of client 0's first sample is a multiple of plus or minus one unit vector e_j (Dirac).

    Each trial uses one j of `coordinates`. Only the noise of coordinate j protects the sample. The other arguments and
    errors are those of `scaled_canary`.
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


def _silenced(trained: Local, whether: ArrayLike) -> Local:
    """The same, but if `whether`, the gradient of the sample is 0 in all rounds after the first."""

    def apply(key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort) -> tuple:
        examples, factor = data.examples
        silent = whether & (cohort.client == 0) & (cohort.round > 0)
        factor = factor.at[:, 0].set(jnp.where(silent, 0.0, factor[:, 0]))
        return trained.apply(key, memory, params, data._replace(examples=(examples, factor)), cohort)

    return trained._replace(apply=apply)


def clip_of(local: Local) -> Array:
    """The norm to which gradients of samples are clipped; 1 if they are not clipped."""
    clip = None if local.steps is None else local.steps.clip
    return jnp.asarray(1.0 if clip is None else clip, jnp.float32)


def _with_ones(rows: Array) -> Array:
    """Sets the first sample of client 0 to ones; labels stay."""
    rows = jnp.asarray(rows)
    return rows.at[0, 0].set(1) if jnp.issubdtype(rows.dtype, jnp.floating) else rows


@jax.jit
def _times(gradient: Array, clip: Array) -> Array:
    """The factor of the loss: its gradient then has norm `BEYOND` clips or largest entry 0.9 clips, the larger one."""
    norm, largest = jnp.linalg.norm(gradient), jnp.abs(gradient).max()
    return clip * jnp.maximum(BEYOND / jnp.maximum(norm, 1e-30), 0.9 / jnp.maximum(largest, 1e-30))

"""Norms and sums of the updates of clients that take one gradient step; no client's gradient is computed.

All clients start from the same parameters, so a client acts like one sample of a batch, whose loss is the client's mean
loss. A sum of clipped updates is then a clipped gradient of this batch (`clients.clipped_gradients`); if each client
has one sample, it is the clipped gradient of DP-SGD.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, PyTree

from fedjax_priv.base import ClientData, Cohort, Key, Updates
from fedjax_priv.clients.clipped_gradients import check_losses, check_separate
from fedjax_priv.clients.ghost_norms.sample_gradients import sample_gradients
from fedjax_priv.losses import Loss

Batch = Callable[[Key, ClientData, Cohort], tuple[PyTree, Bool[Array, "b m"]]]
"""The examples `[b, m, ...]` from which each client's gradient is computed, and which of them are valid."""


def updates_of_one_step(loss: Loss, batch: Batch, rate: ArrayLike) -> Callable[..., Updates]:
    """`(key, params, data, cohort) -> Updates` of `w <- w - rate gradient`, with the gradient of a client's mean loss.

    A client without samples has update 0 and loss 0.

    Args:
      loss: `(params, examples [k, ...]) -> [k]`.
      batch: the examples of each client.
      rate: > 0.
    """
    of_clients = _mean_losses(loss)

    def updates(key: Key, params: PyTree, data: ClientData, cohort: Cohort) -> Updates:
        given = batch(key, data, cohort)
        check_separate(jax.make_jaxpr(of_clients)(params, given), params)
        found, has = sample_gradients(of_clients, params, given), given[1].any(1)

        def weighted_sum(factors: Array, counted: Array) -> Array:
            return jnp.multiply(rate, ravel_pytree(found.weighted_sum(factors, counted & has))[0])

        return Updates(jnp.where(has, found.losses, 0), jnp.where(has, rate * found.norms, 0), weighted_sum)

    return updates


def _mean_losses(loss: Loss) -> Callable[[PyTree, tuple], Array]:
    """`(params, (examples [b, m, ...], valid [b, m])) -> [b]`: the mean loss of each client's valid examples."""

    def mean(params: PyTree, examples: PyTree, valid: Array) -> Array:
        losses = loss(params, examples)
        check_losses(losses, valid)
        return jnp.where(valid, losses, 0).sum() / jnp.maximum(valid.sum(dtype=jnp.float32), 1)

    def of_one_sample(params: PyTree, examples: PyTree, valid: Array) -> Array:
        losses = loss(params, jax.tree.map(lambda a: a[:, 0], examples))
        check_losses(losses, valid[:, 0])
        return losses

    def losses(params: PyTree, given: tuple) -> Array:
        examples, valid = given
        if valid.shape[1] == 1:
            return of_one_sample(params, examples, valid)
        return jax.vmap(mean, (None, 0, 0))(params, examples, valid)

    return losses

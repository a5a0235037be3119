"""Gradients of a batch for a block of clients: means, or sums of clipped samples, with or without noise."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.clients.clipped_gradients import check_losses, clipped_gradient
from fedjax_priv.crypto.normal_draws import normal
from fedjax_priv.keys import named
from fedjax_priv.losses import Loss


def mean_gradient(loss: Loss) -> Callable[[PyTree, PyTree, Array], tuple[Array, PyTree]]:
    """`(params, examples, valid) -> (sum of valid losses, gradient of their mean)`.

    If no example is valid, the sum is 0 and the gradient arbitrary.
    """

    def mean(params: PyTree, examples: PyTree, valid: Array) -> tuple[Array, Array]:
        losses = loss(params, examples)
        check_losses(losses, valid)
        total = jnp.where(valid, losses, 0.0).sum()
        return total / jnp.maximum(valid.sum(dtype=jnp.float32), 1.0), total

    def gradient(params: PyTree, examples: PyTree, valid: Array) -> tuple[Array, PyTree]:
        (_, total), grads = jax.value_and_grad(mean, has_aux=True)(params, examples, valid)
        return total, grads

    return gradient


def batch_gradient(loss: Loss, batch_size: int, sample_clip: Any) -> Callable[..., tuple[Array, PyTree]]:
    """`(params [b, ...], examples, valid) -> (sums of valid losses [b], gradients)` for a block of clients."""
    if sample_clip is None:
        return jax.vmap(mean_gradient(loss))
    clipped = jax.vmap(clipped_gradient(loss, _validate.positive(sample_clip=sample_clip)))

    def gradient(params: PyTree, examples: PyTree, valid: Array) -> tuple[Array, PyTree]:
        total, grads = clipped(params, examples, valid)
        return total, jax.tree.map(lambda g: g / batch_size, grads)

    return gradient


def with_noise(gradient_noise: Any) -> Callable[[Array, Array, PyTree], PyTree]:
    """`(keys [b], time, gradients) -> gradients` plus noise, independent for each client and step."""
    deviation = _validate.non_negative(gradient_noise=gradient_noise)
    if _validate.is_known_as(0, gradient_noise):
        return lambda keys, time, grads: grads

    def add(key: Array, time: Array, grads: PyTree) -> PyTree:
        flat, unravel = ravel_pytree(grads)
        key = jax.random.fold_in(named(key, "noise"), time)
        return unravel(flat + deviation * normal(key, flat.shape))

    return jax.vmap(add, (0, None, 0))

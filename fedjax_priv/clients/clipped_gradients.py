"""Sums of clipped gradients of single samples, which sample-level differential privacy needs in every local step.

`docs/clipping.md` explains the method, which is in `clients.ghost_norms`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.clients.ghost_norms.loss_equations import loss_equations
from fedjax_priv.clients.ghost_norms.plan import plan
from fedjax_priv.clients.ghost_norms.sample_gradients import sample_gradients
from fedjax_priv.clients.ghost_norms.separate_examples import check_separate
from fedjax_priv.losses import Loss, checked_loss


def clipped_gradient(loss: Loss, max_norm: Any) -> Callable[[PyTree, PyTree, Array], tuple[Array, PyTree]]:
    """The sum of `g_i min(1, G / ||g_i||)` over valid samples, where g_i is the gradient of one sample.

    g_i is the gradient of the loss of a batch that contains only this sample. So for any loss, adding a sample moves
    the sum by at most G, and replacing one by at most 2 G, up to rounding: 1e-6 of G in float32, and up to 0.3% if a
    loss computes in bfloat16; choose G so much smaller then. For most networks of flax, equinox or plain JAX, no
    gradient of a single sample is computed, and the cost is about that of the gradient of the batch; `norm_methods`
    tells you.

    Args:
      loss: `(params, examples [k, ...]) -> [k]`, any function that JAX differentiates in reverse.
      max_norm: G, > 0; may be traced.

    Returns:
      `(params, examples [k, ...], valid [k]) -> (sum of valid losses, clipped sum)`. The clipped sum is not finite if
      the gradient of a valid sample is not.

    Raises:
      ValueError: `max_norm` is not > 0, or `loss` is no function of two arguments; or, when the result is called,
        `loss` does not return one value per example, parameters are complex, or `loss` combines examples, as batch
        normalisation does. This is noticed as far as the equations of `loss` can be followed.

    Examples:
      >>> gradient = clipped_gradient(lambda params, x: x @ params, max_norm=5.0)
      >>> x, valid = jnp.array([[6.0, 8.0], [0.5, 0.0]]), jnp.array([True, True])
      >>> print(jax.jit(gradient)(jnp.zeros(2), x, valid)[1])
      [3.5 4. ]
    """

    loss, max_norm = checked_loss(loss), _validate.positive(max_norm=max_norm)

    def gradient(params: PyTree, examples: PyTree, valid: Bool[Array, " k"]) -> tuple[Array, PyTree]:
        traced, losses = jax.make_jaxpr(loss, return_shape=True)(params, examples)
        check_losses(losses, valid)
        check_separate(traced, params)
        found = sample_gradients(loss, params, examples)
        factors = jnp.minimum(1.0, max_norm / found.norms)
        return jnp.where(valid, found.losses, 0).sum(), found.weighted_sum(factors, valid)

    return gradient


def gradient_norms(loss: Loss) -> Callable[[PyTree, PyTree], Float[Array, " k"]]:
    """`(params, examples [k, ...]) -> [k]`: the Euclidean norm of the gradient of each sample, before clipping.

    Args:
      loss: `(params, examples [k, ...]) -> [k]`.

    Raises:
      ValueError: `loss` is no function of two arguments.

    Examples:
      >>> gradient_norms(lambda params, x: x @ params)(jnp.zeros(2), jnp.array([[6.0, 8.0], [0.5, 0.0]])).tolist()
      [10.0, 0.5]
    """
    loss = checked_loss(loss)
    return lambda params, examples: sample_gradients(loss, params, examples).norms


def norm_methods(loss: Loss, params: PyTree, examples: PyTree) -> PyTree:
    """How the gradient of a sample is found for each parameter: a tree like `params`, with a `plan.Method` per leaf.

    Args:
      loss: `(params, examples [k, ...]) -> [k]`.
      params: arrays or their shapes.
      examples: arrays or their shapes, `[k, ...]`.

    Raises:
      ValueError: `loss` is no function of two arguments.

    Examples:
      >>> loss = lambda params, x: jnp.sin(x @ params["w"]).sum(1) + params["b"]
      >>> norm_methods(loss, {"w": jnp.ones((3, 2)), "b": 1.0}, jnp.ones((5, 3)))
      {'b': 'instantiated', 'w': 'ghost norm'}
    """
    return jax.tree.structure(params).unflatten(plan(loss_equations(checked_loss(loss), params, examples)).methods)


def check_losses(losses: Any, valid: Array) -> None:
    """Raises ValueError unless there is one loss per example, a floating-point number."""
    if getattr(losses, "shape", None) != valid.shape:
        raise ValueError(f"loss must return one value per example, shape {valid.shape}, got {_validate.made(losses)}")
    if not jnp.issubdtype(losses.dtype, jnp.floating):
        raise ValueError(f"loss must return floating-point numbers, which have gradients, got {losses.dtype}")

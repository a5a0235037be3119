"""Sums of clipped gradients of single samples, which sample-level differential privacy needs in every local step.

A network whose parameters are all in dense layers needs no gradient of a single sample. For a layer `y = a W + c` with
inputs `a` and derivatives `e` by its outputs, that gradient is `a^T e`, its squared norm is `|a|^2 |e|^2 + |e|^2`
(Goodfellow 2015, "Efficient per-example gradient computations"), and the clipped sum is one product. Other networks are
differentiated sample by sample.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.extend.core import Var
from jaxtyping import Array, Bool, Float, PyTree

from fedjax_priv.losses import Loss


def clipped_gradient(loss: Loss, max_norm: Any) -> Callable[[PyTree, PyTree, Array], tuple[Array, PyTree]]:
    """The sum of `g_i min(1, G / ||g_i||)` over valid samples, where g_i is the gradient of one sample.

    Args:
      loss: `(params, examples [k, ...]) -> [k]`, where the loss of an example depends on no other; a dense layer that
        gets k rows gets one of each sample, in order.
      max_norm: G, > 0; may be traced.

    Returns:
      `(params, examples [k, ...], valid [k]) -> (sum of valid losses, clipped sum)`. A gradient that is not finite
      spoils the sum.
    """

    def gradient(params: PyTree, examples: PyTree, valid: Bool[Array, " k"]) -> tuple[Array, PyTree]:
        check_losses(jax.eval_shape(loss, params, examples), valid)
        calls = _dense_calls(loss, params, examples)
        if calls is None:
            return _by_sample(loss, max_norm, params, examples, valid)
        return _by_layer(loss, calls, max_norm, params, examples, valid)

    return gradient


def check_losses(losses: Any, valid: Array) -> None:
    """Raises ValueError unless there is one loss per example."""
    if losses.shape != valid.shape:
        raise ValueError(f"loss must return one value per example, shape {valid.shape}, got {losses.shape}")


class _Call(NamedTuple):
    """One call of a dense layer."""

    path: tuple[str, ...]  # of its parameters
    inputs: Any  # [k, in]
    outputs: Any  # [k, out]


def _watched(loss: Loss, params: PyTree, examples: PyTree, output: Callable[[Callable, int], Array]) -> tuple:
    """Losses, and the calls of dense layers; call number i returns `output(compute, i)`."""
    calls: list[_Call] = []

    def watch(next_call: Callable, args: tuple, kwargs: dict, context: Any) -> Any:
        if not _is_plain(context, params):
            return next_call(*args, **kwargs)
        y = output(lambda: next_call(*args, **kwargs), len(calls))
        calls.append(_Call(context.module.path, args[0] if args else kwargs["inputs"], y))
        return y

    with nn.intercept_methods(watch):
        return loss(params, examples), calls


def _is_plain(context: Any, params: PyTree) -> bool:
    """Whether this is a call of an unmodified `nn.Dense` with the parameters found under its path."""
    module = context.module
    if type(module) is not nn.Dense or context.method_name != "__call__":
        return False
    if module.dot_general is not None or module.dot_general_cls is not None:
        return False
    mine, own = _at(params, module.path), module.variables.get("params", {})
    return mine is not None and mine.keys() == own.keys() and all(mine[name] is own[name] for name in own)


def _dense_calls(loss: Loss, params: PyTree, examples: PyTree) -> list[_Call] | None:
    """Shapes of the calls if parameters affect losses only through dense layers, each called once with a row per
    sample.

    None otherwise: anything but such a call reads its parameters itself, which the jaxpr shows.
    """
    calls: list[_Call] = []

    def compute(params: PyTree, examples: PyTree) -> None:
        for call in _watched(loss, params, examples, lambda compute, number: compute())[1]:
            calls.append(call._replace(inputs=jax.typeof(call.inputs), outputs=jax.typeof(call.outputs)))

    def without(params: PyTree, examples: PyTree, outputs: list[Array]) -> Array:
        return _watched(loss, params, examples, lambda compute, number: outputs[number])[0]

    jax.eval_shape(compute, params, examples)
    paths = {call.path for call in calls}
    samples = len(jax.tree.leaves(examples)[0])
    rows = all(
        len(shape) == 2 and shape[0] == samples for call in calls for shape in (call.inputs.shape, call.outputs.shape)
    )
    if len(paths) < len(calls) or not rows:
        return None
    outputs = [jax.ShapeDtypeStruct(call.outputs.shape, call.outputs.dtype) for call in calls]
    rest = jax.make_jaxpr(without)(params, examples, outputs).jaxpr
    own = set(rest.invars[: len(jax.tree.leaves(params))])
    read = {atom for equation in rest.eqns for atom in equation.invars if isinstance(atom, Var)}
    return None if own & read else calls


def _at(params: PyTree, path: tuple[str, ...]) -> Any:
    """The parameters of the dense layer at `path`; None if there is none."""
    for name in path:
        if not isinstance(params, dict) or name not in params:
            return None
        params = params[name]
    return params if isinstance(params, dict) and "kernel" in params else None


def _by_layer(
    loss: Loss, calls: list[_Call], max_norm: Any, params: PyTree, examples: PyTree, valid: Array
) -> tuple[Array, PyTree]:
    def shifted(shifts: list[Array]) -> tuple[Array, list[Array]]:
        losses, seen = _watched(loss, params, examples, lambda compute, number: compute() + shifts[number])
        return jnp.where(valid, losses, 0).sum(), [call.inputs for call in seen]

    zeros = [jnp.zeros(call.outputs.shape, call.outputs.dtype) for call in calls]
    (total, inputs), slopes = jax.value_and_grad(shifted, has_aux=True)(zeros)
    layers = [_at(params, call.path) for call in calls]
    biased = [float("bias" in layer) for layer in layers]
    squares = [(_squares(a) + bias) * _squares(e) for a, e, bias in zip(inputs, slopes, biased, strict=True)]
    factor = _factor(sum(squares), max_norm)
    grads = jax.tree.map(jnp.zeros_like, params)
    for call, a, e in zip(calls, inputs, slopes, strict=True):
        clipped = e * factor[:, None]
        own = _at(grads, call.path)
        own |= {"kernel": a.T @ clipped, "bias": clipped.sum(0)} if "bias" in own else {"kernel": a.T @ clipped}
    return total, grads


def _by_sample(loss: Loss, max_norm: Any, params: PyTree, examples: PyTree, valid: Array) -> tuple[Array, PyTree]:
    def one(params: PyTree, example: PyTree) -> Array:
        return loss(params, jax.tree.map(lambda a: a[None], example))[0]

    losses, grads = jax.vmap(jax.value_and_grad(one), (None, 0))(params, examples)
    squares = sum(_squares(leaf.reshape(len(losses), -1)) for leaf in jax.tree.leaves(grads))
    factor = jnp.where(valid, _factor(squares, max_norm), 0)
    kept = jax.tree.map(lambda g: jnp.where(valid.reshape(-1, *(1,) * (g.ndim - 1)), g, 0), grads)
    return jnp.where(valid, losses, 0).sum(), jax.tree.map(lambda g: jnp.tensordot(factor, g, 1), kept)


def _squares(rows: Float[Array, "k w"]) -> Float[Array, " k"]:
    return jnp.square(rows).sum(1)


def _factor(squares: Any, max_norm: Any) -> Float[Array, " k"]:
    """min(1, G / norm)."""
    return jnp.minimum(1.0, max_norm * jax.lax.rsqrt(jnp.maximum(squares, jnp.finfo(jnp.float32).tiny)))

"""The rule of `models.client_convolution.conv`, a convolution with derivatives written by hand."""

import functools

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jaxtyping import Array

from fedjax_priv.clients.ghost_norms import convolutions
from fedjax_priv.clients.ghost_norms.loss_equations import shaped
from fedjax_priv.clients.ghost_norms.rule import Rule
from fedjax_priv.models.client_convolution import LAYOUT, conv, named_convolution


def rule(equation: JaxprEqn, at: int) -> Rule | None:
    """The rule of that convolution, whose kernel is its second input; None for another function.

    Images have an axis more in front if a loss has it under `vmap`, as that of a client with several samples.
    """
    *_, last = equation.params["call_jaxpr"].eqns or [equation]
    named = named_convolution(last.params["name"]) if last.primitive.name == "name" else None
    (x, kernel), y = (shaped(atom) for atom in equation.invars), shaped(equation.outvars[0])
    if at != 1 or named is None or kernel.ndim != 4:
        return None
    strides, padding = named
    plain = functools.partial(
        jax.lax.conv_general_dilated, window_strides=strides, padding=padding, dimension_numbers=LAYOUT
    )
    traced = jax.make_jaxpr(plain)(jax.eval_shape(_one_batch, x), kernel).jaxpr
    ordinary, outputs = convolutions.rule(traced.eqns[0], at), shaped(traced.outvars[0])
    if ordinary is None or jax.eval_shape(_one_batch, y).shape != outputs.shape:
        return None

    def gradient(x: Array, slope: Array) -> Array:
        run = lambda value: conv(_one_batch(x), value, strides, padding, dimension_numbers=LAYOUT)
        return jax.vjp(run, jnp.zeros(kernel.shape, kernel.dtype))[1](_one_batch(slope).astype(y.dtype))[0]

    def norm(x: Array, slope: Array) -> Array:
        return ordinary.norm(_one_batch(x), _one_batch(slope))

    return ordinary._replace(norm=norm, gradient=gradient, total=gradient)


def _one_batch(images: Array) -> Array:
    """`[..., h, w, c] -> [b, h, w, c]`."""
    return images.reshape(-1, *images.shape[-3:])

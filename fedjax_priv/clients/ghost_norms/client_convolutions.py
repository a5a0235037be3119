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
    """The rule of that convolution, whose kernel is its second input; None for another function."""
    *_, last = equation.params["call_jaxpr"].eqns or [equation]
    named = named_convolution(last.params["name"]) if last.primitive.name == "name" else None
    if at != 1 or named is None:
        return None
    strides, padding = named
    (x, kernel), y = (shaped(atom) for atom in equation.invars), shaped(equation.outvars[0])
    plain = functools.partial(
        jax.lax.conv_general_dilated, window_strides=strides, padding=padding, dimension_numbers=LAYOUT
    )
    ordinary = convolutions.rule(jax.make_jaxpr(plain)(x, kernel).jaxpr.eqns[0], at)

    def gradient(x: Array, slope: Array) -> Array:
        run = lambda value: conv(x, value, strides, padding, dimension_numbers=LAYOUT)
        return jax.vjp(run, jnp.zeros(kernel.shape, kernel.dtype))[1](slope.astype(y.dtype))[0]

    def total(x: Array, slope: Array) -> Array:
        return gradient(*(each.reshape(-1, *each.shape[2:]) for each in (x, slope)))

    return ordinary and ordinary._replace(gradient=gradient, total=total)

"""Chooses the rule for an equation."""

from collections.abc import Callable, Mapping

import jax.numpy as jnp
from jax.extend.core import JaxprEqn

from fedjax_priv.clients.ghost_norms import client_convolutions, convolutions, lookups, matrices
from fedjax_priv.clients.ghost_norms.loss_equations import Use, shaped
from fedjax_priv.clients.ghost_norms.rule import Rule

RULES: Mapping[str, Callable[[JaxprEqn, int], Rule | None]] = {
    "conv_general_dilated": convolutions.rule,
    "custom_vjp_call": client_convolutions.rule,
    "dot_general": matrices.rule,
    "gather": lookups.rule,
}
"""Primitive -> the rule of an equation, given the place of the weight among its inputs; None: there is none."""


def rule_of(use: Use) -> Rule | None:
    """The rule of a use with one weight and one other input; None: there is none."""
    equation, atoms = use.equation, (*use.equation.invars, *use.equation.outvars)
    if any(jnp.issubdtype(shaped(atom).dtype, jnp.complexfloating) for atom in atoms):
        return None
    if equation.primitive.name not in RULES or len(equation.invars) != 2 or len(use.weights) != 1:
        return None
    return RULES[equation.primitive.name](equation, equation.invars.index(use.weights[0]))

"""Norms of the gradients of all samples of a batch, and their weighted sums."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Var
from jaxtyping import Array, Bool, Float, PyTree

from fedjax_priv.clients.ghost_norms.loss_equations import (
    LossEquations,
    Use,
    Values,
    as_function,
    loss_equations,
    shaped,
)
from fedjax_priv.clients.ghost_norms.outer_products import wide
from fedjax_priv.clients.ghost_norms.plan import Plan, plan
from fedjax_priv.engine.row_norms import norms
from fedjax_priv.losses import Loss


class SampleGradients(NamedTuple):
    """The gradients of k samples."""

    losses: Float[Array, " k"]
    norms: Float[Array, " k"]  # Euclidean
    weighted_sum: Callable[[Array, Array], PyTree]  # (factors [k], counted [k]) -> weighted sum of counted ones
    methods: PyTree  # a `Method` per parameter


def sample_gradients(loss: Loss, params: PyTree, examples: PyTree) -> SampleGradients:
    """The gradients by `params` of the loss of each single example of `examples [k, ...]`."""
    equations = loss_equations(loss, params, examples)
    leaves, structure = jax.tree.flatten(params)
    parts = plan(equations)
    known = equations.shared_values(leaves)
    by_params = _by_params(equations, parts, leaves)

    def of_sample(example: Sequence[Array]) -> tuple:
        differentiated = jax.value_and_grad(equations.shifted_loss, has_aux=True)
        (value, inputs), slopes = differentiated(equations.zero_shifts(), known, example)
        own = by_params(_by_weights(equations, parts, known, inputs, slopes))
        seen = [(inputs[ghost.use][0], slopes[ghost.use][0]) for ghost in parts.ghosts]
        sizes = [ghost.rule.norm(*pair) for ghost, pair in zip(parts.ghosts, seen, strict=True)]
        sizes += [norms(wide(each).reshape(1, -1))[0] for each in own]
        return value, _together(sizes), seen, own

    zeros = jnp.zeros(len(jax.tree.leaves(examples)[0]), jnp.float32)
    losses, sizes, seen, own = jax.vmap(of_sample)([*jax.tree.leaves(examples), zeros])

    def weighted_sum(factors: Float[Array, " k"], counted: Bool[Array, " k"]) -> PyTree:
        kept = lambda rows: jnp.where(_column(counted, rows), rows, 0)
        scaled = lambda rows: kept(rows * _column(factors, rows).astype(rows.dtype))
        with jax.default_matmul_precision("highest"):  # rounded factors could exceed the norm that was clipped
            totals = [
                ghost.rule.total(kept(x), scaled(wide(slope)))
                for ghost, (x, slope) in zip(parts.ghosts, seen, strict=True)
            ]
        sums = [scaled(wide(rows)).sum(0) for rows in own]
        found = dict(zip(parts.instantiated, sums, strict=True)) | _of_ghosts(equations, parts, leaves, totals)
        zeros = jax.tree.map(jnp.zeros_like, leaves)
        return structure.unflatten([found[i].astype(x.dtype) if i in found else x for i, x in enumerate(zeros)])

    return SampleGradients(losses, sizes, weighted_sum, structure.unflatten(parts.methods))


def _together(sizes: list[Array]) -> Float[Array, ""]:
    """The norm of a vector whose parts have these norms."""
    dtype = max((size.dtype for size in sizes), key=lambda dtype: jnp.finfo(dtype).bits, default=jnp.float32)
    return norms(jnp.array([size.astype(dtype) for size in sizes], dtype)[None])[0]


def _column(numbers: Array, rows: Array) -> Array:
    return numbers.reshape(-1, *(1,) * (rows.ndim - 1))


def _by_weights(equations: LossEquations, parts: Plan, known: Values, inputs: list, slopes: list) -> dict[Var, Array]:
    """Derivatives of a sample's loss by the weights of uses without ghost norms."""
    ghosts = {ghost.use for ghost in parts.ghosts}
    found: dict[Var, Array] = {}
    for number, (use, rule) in enumerate(zip(equations.uses, parts.rules, strict=True)):
        if number in ghosts:
            continue
        if rule:
            grads = [rule.gradient(inputs[number][0], slopes[number][0])]
        else:
            grads = _differentiated(use, known, inputs[number], slopes[number])
        for weight, grad in zip(use.weights, grads, strict=True):
            grad = grad.astype(shaped(weight).dtype)
            found[weight] = found[weight] + grad if weight in found else grad
    return found


def _differentiated(use: Use, known: Values, inputs: list, slopes: list) -> Sequence[Array]:
    """Derivatives by the weights of any equation."""
    run, arguments = as_function(use.equation)
    fixed = {**known, **dict(zip(use.others, inputs, strict=True))}

    def outputs(weights: list) -> list:
        values = fixed | dict(zip(use.weights, weights, strict=True))
        results = dict(zip(use.equation.outvars, run(*(values[each] for each in arguments)), strict=True))
        return [results[output] for output in use.outputs]

    return jax.vjp(outputs, [known[weight] for weight in use.weights])[1](slopes)[0]


def _by_params(equations: LossEquations, parts: Plan, leaves: list) -> Callable[[dict[Var, Array]], list[Array]]:
    """A function from derivatives by weights to derivatives by the instantiated parameters."""
    ghosts = {ghost.use for ghost in parts.ghosts}
    uses = [use for number, use in enumerate(equations.uses) if number not in ghosts]
    weights = list(dict.fromkeys(weight for use in uses for weight in use.weights))
    backward = _backward(equations, parts.instantiated, weights, leaves)
    return lambda found: backward([found[weight] for weight in weights])


def _of_ghosts(equations: LossEquations, parts: Plan, leaves: list, totals: list[Array]) -> dict[int, Array]:
    """Sums of gradients by the parameters with ghost norms, from sums of gradients by their weights."""
    params = [ghost.param for ghost in parts.ghosts]
    weights = [equations.uses[ghost.use].weights[0] for ghost in parts.ghosts]
    cast = [total.astype(shaped(weight).dtype) for total, weight in zip(totals, weights, strict=True)]
    return dict(zip(params, _backward(equations, params, weights, leaves)(cast), strict=True))


def _backward(
    equations: LossEquations, params: Sequence[int], weights: Sequence[Var], leaves: list
) -> Callable[[list], list]:
    """A function from derivatives by weights to derivatives by some of the parameters."""

    def computed(own: list) -> list:
        values = equations.shared_values([dict(zip(params, own, strict=True)).get(i, x) for i, x in enumerate(leaves)])
        return [values[weight] for weight in weights]

    back = jax.vjp(computed, [leaves[i] for i in params])[1]
    return lambda grads: back(grads)[0]

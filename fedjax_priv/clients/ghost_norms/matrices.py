"""The rule of `dot_general` with a weight on either side."""

import math
from collections.abc import Sequence

import numpy as np
from jax.extend.core import JaxprEqn
from jaxtyping import Array

from fedjax_priv.clients.ghost_norms import outer_products
from fedjax_priv.clients.ghost_norms.loss_equations import shaped
from fedjax_priv.clients.ghost_norms.rule import Rule, transposed


def rule(equation: JaxprEqn, at: int) -> Rule:
    """The rule of a product whose operand number `at` is the weight."""
    contracted, batch = equation.params["dimension_numbers"]
    shapes = [shaped(atom).shape for atom in equation.invars]
    free = [
        [i for i in range(len(shape)) if i not in (*used, *alike)]
        for shape, used, alike in zip(shapes, contracted, batch, strict=True)
    ]
    order = [(*batch[side], *contracted[side], *free[side]) for side in (0, 1)]
    size = lambda side, axes: math.prod(shapes[side][i] for i in axes)
    groups, positions = size(at, batch[at]), size(1 - at, free[1 - at])
    rows, columns = size(at, contracted[at]), size(at, free[at])
    by_position = (*batch[1 - at], *free[1 - at], *contracted[1 - at])

    def factors(x: Array, slope: Array) -> outer_products.Factors:
        a = x.transpose(by_position).reshape(groups, positions, rows)
        if at == 1:  # the output has batch axes, then free axes of the left operand, then of the right one
            return outer_products.Factors(a, slope.reshape(groups, positions, columns))
        return outer_products.Factors(a, slope.reshape(groups, columns, positions).swapaxes(1, 2))

    def assembled(gradient: Array) -> Array:
        return _put_back(gradient, [shapes[at][i] for i in order[at]], order[at])

    return outer_products.rule(factors, assembled, (positions, rows, columns), transposed(equation, at).total)


def _put_back(values: Array, shape: Sequence[int], order: Sequence[int]) -> Array:
    """The array whose axes in this order are `values`."""
    return values.reshape(shape).transpose(np.argsort(order).tolist())

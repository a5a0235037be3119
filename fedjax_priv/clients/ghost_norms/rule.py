"""Rules for the gradient by a weight, from the equation that uses the weight."""

from collections.abc import Callable
from typing import NamedTuple

import jax
from jax.extend.core import JaxprEqn
from jaxtyping import Array, Float

from fedjax_priv.clients.ghost_norms.loss_equations import as_function, shaped


class Rule(NamedTuple):
    """Gradients by the only weight of a use, from its other input and the derivative by its output (the slope).

    `norm` and `gradient` take input and slope of one sample; for `total` both have a leading axis of samples.
    """

    norm: Callable[[Array, Array], Float[Array, ""]]  # Euclidean norm of `gradient`, without computing it
    gradient: Callable[[Array, Array], Array]
    total: Callable[[Array, Array], Array]  # sum of `gradient` over samples, without computing single ones
    cheap: bool  # whether `norm` takes less memory than `gradient`


class Linear(NamedTuple):
    """An equation that is linear in its weight, transposed: gradients from input and slope."""

    of_sample: Callable[[Array, Array], Array]
    total: Callable[[Array, Array], Array]


def transposed(equation: JaxprEqn, at: int) -> Linear:
    """An equation of two inputs that is linear in its input number `at`, transposed."""
    run, arguments = as_function(equation)
    weight, y = equation.invars[at], shaped(equation.outvars[0])
    output = lambda value, x: run(*(value if each is weight else x for each in arguments))[0]

    def of_sample(x: Array, slope: Array) -> Array:
        return jax.linear_transpose(lambda value: output(value, x), shaped(weight))(slope.astype(y.dtype))[0]

    def total(x: Array, slope: Array) -> Array:
        outputs = lambda value: jax.vmap(lambda x: output(value, x))(x)
        return jax.linear_transpose(outputs, shaped(weight))(slope.astype(y.dtype))[0]

    return Linear(of_sample, total)

"""The rule of `conv_general_dilated` whose kernel is the weight: a matrix product with patches of the input.

Source: Rochette et al. 2019, "Efficient per-example gradient computations in convolutional neural networks".
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn
from jaxtyping import Array, Float

from fedjax_priv.clients.ghost_norms import outer_products
from fedjax_priv.clients.ghost_norms.loss_equations import shaped
from fedjax_priv.clients.ghost_norms.rule import Rule, transposed


def rule(equation: JaxprEqn, at: int) -> Rule | None:
    """The rule of a convolution; None if the weight is not the kernel, or there are batch groups."""
    if at != 1 or equation.params["batch_group_count"] != 1:
        return None
    params = equation.params
    x, kernel = (shaped(atom).shape for atom in equation.invars)
    y = shaped(equation.outvars[0]).shape
    x_axes, kernel_axes, y_axes = params["dimension_numbers"]
    groups = params["feature_group_count"]
    taps, space = [kernel[i] for i in kernel_axes[2:]], [y[i] for i in y_axes[2:]]
    features, channels = kernel[kernel_axes[0]], kernel[kernel_axes[1]]
    positions = x[x_axes[0]] * math.prod(space)
    rows, columns = math.prod(taps) * channels, features // groups

    def factors(x: Array, slope: Array) -> outer_products.Factors:
        found = _patches(x.transpose(x_axes[1], x_axes[0], *x_axes[2:]), taps, space, params)
        by_group = found.reshape(math.prod(taps), groups, channels, positions)
        a = by_group.transpose(1, 0, 2, 3).reshape(groups, rows, positions).swapaxes(1, 2)
        e = slope.transpose(y_axes[0], *y_axes[2:], y_axes[1]).reshape(positions, groups, columns)
        return outer_products.Factors(a, e.swapaxes(0, 1))

    def assembled(gradient: Array) -> Array:
        parts = gradient.reshape(groups, *taps, channels, columns)
        last = parts.ndim - 1
        parts = parts.transpose(0, last, last - 1, *range(1, last - 1)).reshape(features, channels, *taps)
        return parts.transpose(np.argsort(kernel_axes).tolist())

    return outer_products.rule(factors, assembled, (positions, rows, columns), transposed(equation, at).total)


def _patches(
    x: Float[Array, "c n ..."], taps: Sequence[int], space: Sequence[int], params: Mapping[str, Any]
) -> Float[Array, "... p"]:
    """What each tap reads at each output position, `[*taps reversed, c, n, *space]`; taps are in a row."""
    edges = [(low, high, wide - 1) for (low, high), wide in zip(params["padding"], params["lhs_dilation"], strict=True)]
    x = jax.lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *edges])
    for axis in reversed(range(len(taps))):  # the first axis of taps is stacked last, and is the first of the result
        at, stride, apart = x.ndim - len(taps) + axis, params["window_strides"][axis], params["rhs_dilation"][axis]
        last = (space[axis] - 1) * stride + 1
        read = lambda i, x=x, at=at, stride=stride, apart=apart, last=last: jax.lax.slice_in_dim(
            x, i * apart, i * apart + last, stride, at
        )
        x = jnp.stack([read(i) for i in range(taps[axis])])
    return x

"""Gradients that are sums of outer products, `sum_t a_t e_t^T` over positions t: matrices and convolution kernels.

The squared norm of the gradient of one sample is `sum_ts (a_t . a_s) (e_t . e_s)`, which needs no gradient (Goodfellow
2015, "Efficient per-example gradient computations", for one position; Bu et al. 2022, "Scalable and efficient training
of large convolutional neural networks with differential privacy", for more).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from fedjax_priv.clients.ghost_norms.rule import Rule
from fedjax_priv.engine.row_norms import norms, unit_scale

_SLACK = 4.0
"""A bound on the rounding error of a squared ghost norm, as a multiple of `eps (sum_t |a_t| |e_t|)^2`.

It is added, since terms may cancel, and an underestimated norm would break the guarantee.
"""


class Factors(NamedTuple):
    """The gradient of a sample: group b of it is `sum_t a[b, t] e[b, t]^T`."""

    a: Float[Array, "b t p"]
    e: Float[Array, "b t o"]


def rule(
    factors: Callable[[Array, Array], Factors],
    assembled: Callable[[Array], Array],
    shape: tuple[int, int, int],
    total: Callable[[Array, Array], Array],
) -> Rule:
    """The rule of a use whose gradient is a sum of outer products.

    Args:
      factors: `(input, slope) -> Factors` of one sample.
      assembled: reshapes the gradient `[b, p, o]` to the weight's shape.
      shape: `t, p, o`.
      total: as in `Rule`.
    """
    positions, rows, columns = shape

    def gradient(x: Array, slope: Array) -> Array:
        a, e = factors(wide(x), wide(slope))
        return assembled(jnp.einsum("btp,bto->bpo", a, e))

    def norm(x: Array, slope: Array) -> Array:
        return norm_of_sum(*factors(wide(x), wide(slope)))

    # The rule of Bu et al. 2022: two matrices of all pairs of positions take less memory than one gradient.
    return Rule(norm, gradient, total, 2 * positions**2 < rows * columns)


def wide(x: Array) -> Array:
    """The same values in float32, or in float64 if they are in float64."""
    return x if jnp.finfo(x.dtype).bits >= 32 else x.astype(jnp.float32)


def norm_of_sum(a: Float[Array, "b t p"], e: Float[Array, "b t o"]) -> Float[Array, ""]:
    """Euclidean norm of the gradient of a sample."""
    if a.shape[1] == 1:
        return norms((norms(a[:, 0]) * norms(e[:, 0]))[None])[0]
    of_a, scale = inner_products(a)
    return norm_by_products(of_a, e) / scale


def norm_by_products(of_a: Float[Array, "b t t"], e: Float[Array, "b t o"]) -> Float[Array, ""]:
    """Euclidean norm of the gradient of a sample, from the inner products of all `a[b, t]`; at least the true norm."""
    of_e, scale = inner_products(e)
    sizes = jnp.sqrt(jnp.diagonal(of_a, axis1=1, axis2=2) * jnp.diagonal(of_e, axis1=1, axis2=2)).sum(1)
    rounding = _SLACK * jnp.finfo(e.dtype).eps * jnp.square(sizes).sum()
    return jnp.sqrt(jnp.maximum((of_a * of_e).sum() + rounding, 0)) / scale


def inner_products(rows: Float[Array, "b t p"]) -> tuple[Float[Array, "b t t"], Float[Array, ""]]:
    """Inner products of scaled rows, and the power of two by which each row was scaled."""
    scale = unit_scale(jnp.abs(rows).max(initial=0.0))
    scaled = rows * scale
    return jnp.einsum("btp,bsp->bts", scaled, scaled, precision="highest"), scale

"""The rule of a lookup of rows in a table, `gather`: embeddings.

The squared norm of the gradient of one sample is `sum_ts [i_t = i_s] e_t . e_s` over the rows i_t that it reads.
"""

import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jax.lax import GatherScatterMode
from jaxtyping import Array

from fedjax_priv.clients.ghost_norms import outer_products
from fedjax_priv.clients.ghost_norms.loss_equations import shaped
from fedjax_priv.clients.ghost_norms.rule import Rule, transposed


def rule(equation: JaxprEqn, at: int) -> Rule | None:
    """The rule of a lookup of whole rows of a table `[v, d]`; None for any other gather."""
    table, places = (shaped(atom) for atom in equation.invars)
    slope, numbers, mode = shaped(equation.outvars[0]), equation.params["dimension_numbers"], equation.params["mode"]
    whole = (
        at == 0
        and table.ndim == 2
        and tuple(equation.params["slice_sizes"]) == (1, table.shape[1])
        and (numbers.collapsed_slice_dims, numbers.start_index_map) == ((0,), (0,))
        and not numbers.operand_batching_dims
        and numbers.offset_dims == (slope.ndim - 1,)
    )
    if not whole:
        return None
    positions, (size, width) = places.size, table.shape

    def norm(read: Array, slope: Array) -> Array:
        row, e = read.reshape(positions), outer_products.wide(slope).reshape(1, positions, width)
        if mode == GatherScatterMode.CLIP:
            row = jnp.clip(row, 0, size - 1)
        else:  # what is read outside the table has no gradient
            e = jnp.where(((row >= 0) & (row < size))[None, :, None], e, 0)
        same = (row[:, None] == row[None, :]).astype(e.dtype)
        return outer_products.norm_by_products(same[None], e)

    back = transposed(equation, at)
    return Rule(norm, back.of_sample, back.total, 2 * positions**2 < size * width)

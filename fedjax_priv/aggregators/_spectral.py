"""The direction in which weighted rows spread most, from their inner products."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv.aggregators._columns import dot


def top_variance(gram: Float[Array, "g g"], weights: Float[Array, " g"]) -> tuple[Array, Float[Array, " g"]]:
    """Largest eigenvalue of the weighted covariance of rows, and squared components of rows along its eigenvector.

    The covariance is `sum_l w_l y_l y_l^T / sum_l w_l`, `y_l` the row without the weighted mean; its nonzero
    eigenvalues are those of a `g x g` matrix. `gram` are inner products about any origin.
    """
    centred = about_mean(gram, weights)
    root = jnp.sqrt(weights / weights.sum())
    values, vectors = jnp.linalg.eigh(root[:, None] * centred * root[None, :])
    value = jnp.maximum(values[-1], 0.0)
    along = dot(centred, root * vectors[:, -1])
    return value, jnp.where(value > 0, jnp.square(along / jnp.sqrt(value)), 0.0)


def about_mean(gram: Float[Array, "g g"], weights: Float[Array, " g"]) -> Float[Array, "g g"]:
    """Inner products of rows without their weighted mean."""
    share = weights / weights.sum()
    row = dot(gram, share)
    return gram - row[:, None] - row[None, :] + dot(share, row)


def down_weigh(
    weights: Float[Array, " g"], along: Float[Array, " g"], compared: Bool[Array, " g"]
) -> Float[Array, " g"]:
    """`w_l (1 - tau_l / max tau)`, the largest over the rows `compared`; as they are where those do not spread."""
    largest = jnp.where(compared, along, 0.0).max()
    left = jnp.where(along < largest, weights * (1 - along / largest), 0.0)  # a quotient of equals may round below 1
    return jnp.where(largest > 0, left, weights)

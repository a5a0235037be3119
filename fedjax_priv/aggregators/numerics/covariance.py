"""The direction in which weighted rows vary most, from their inner products."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from fedjax_priv.aggregators.numerics.column_blocks import dot

SQUARINGS = 20


def top_variance(gram: Float[Array, "g g"], weights: Float[Array, " g"]) -> tuple[Array, Float[Array, " g"]]:
    """Largest eigenvalue of the weighted covariance of rows, and each row's squared component along its eigenvector.

    The covariance is `sum_l w_l y_l y_l^T / sum_l w_l`, where `y_l` is the row minus the weighted mean. Its nonzero
    eigenvalues are those of a `g x g` matrix. `gram` holds inner products relative to any origin.
    """
    centred = about_mean(gram, weights)
    root = jnp.sqrt(weights / weights.sum())
    value, vector = top_pair(root[:, None] * centred * root[None, :])
    along = dot(centred, root * vector)
    return value, jnp.where(value > 0, jnp.square(along / jnp.sqrt(value)), 0.0)


def top_pair(matrix: Float[Array, "g g"]) -> tuple[Array, Float[Array, " g"]]:
    """Largest eigenvalue of a positive semidefinite matrix and a unit eigenvector, by repeated squaring.

    After k squarings an eigenvalue of 1 - x times the largest has weight (1 - x)^(2^k), which lowers the value by at
    most a fraction 1 / (2 e 2^k), below float32 precision. XLA's own solver cannot be used: on a CPU it waits for
    threads of the pool it runs in, so two solvers side by side can deadlock.
    """

    def squared(_: Array, power: Array) -> Array:
        power = dot(power, power)
        return power / _not_zero(jnp.diagonal(power).max())

    start = matrix / _not_zero(jnp.diagonal(matrix).max())
    power = lax.fori_loop(0, SQUARINGS, squared, start)
    column = power[:, jnp.argmax(jnp.diagonal(power))]
    vector = column / _not_zero(jnp.linalg.norm(column))
    return jnp.maximum(dot(vector, dot(matrix, vector)), 0.0), vector


def _not_zero(x: Array) -> Array:
    return jnp.where(x == 0, 1.0, x)


def about_mean(gram: Float[Array, "g g"], weights: Float[Array, " g"]) -> Float[Array, "g g"]:
    """Inner products of rows minus their weighted mean."""
    fraction = weights / weights.sum()
    row = dot(gram, fraction)
    return gram - row[:, None] - row[None, :] + dot(fraction, row)


def down_weigh(
    weights: Float[Array, " g"], along: Float[Array, " g"], compared: Bool[Array, " g"]
) -> Float[Array, " g"]:
    """`w_l (1 - tau_l / max tau)`, the maximum over the rows `compared`; unchanged if that maximum is 0."""
    largest = jnp.where(compared, along, 0.0).max()
    left = jnp.where(along < largest, weights * (1 - along / largest), 0.0)  # x / x may round to less than 1
    return jnp.where(largest > 0, left, weights)

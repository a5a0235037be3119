"""Gaussian noise that clients add to their updates."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer
from fedjax_priv.crypto.normal_draws import normal
from fedjax_priv.engine.products import rounded_product, unknown_zero
from fedjax_priv.engine.side_by_side import by_platform
from fedjax_priv.keys import per_client
from fedjax_priv.layers.stacking import stateless


def gaussian_noise(noise_variance: ArrayLike) -> Layer:
    """`x -> x + n`, `n ~ N(0, sigma_k^2 I)`, drawn by each client from its own key.

    Args:
      noise_variance: sigma_k^2, >= 0, one for all clients or `[population]`; may be traced.

    Raises:
      ValueError: a variance is negative or not finite, or (by `init`) their number is neither 1 nor the population.

    Examples:
      >>> send = stack(clip=clip(1.0), noise=gaussian_noise(0.01), average=average(), send=plain())
    """
    deviation = standard_deviation(noise_variance)

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d"]:
        return plus_gaussian(key, x, cohort, of_clients(deviation, cohort))

    return stateless(encode)._replace(init=one_for_each(noise_variance=noise_variance))


def one_for_each(**values: ArrayLike) -> Callable[[Key, int], tuple]:
    """`init` of a stateless layer; checks that each value is one number or one per client."""

    def init(key: Key, n: int) -> tuple:
        del key
        for name, value in values.items():
            _validate.per_client(n, **{name: value})
        return ()

    return init


def standard_deviation(noise_variance: ArrayLike) -> Array:
    """Square root of one variance, or of one per client; NaN where a traced one is out of range."""
    return jnp.sqrt(_validate.array(_validate.non_negative, noise_variance=noise_variance))


def of_clients(values: Array, cohort: Cohort) -> Float[Array, " b"]:
    """The numbers of a block's clients, from one for all or one per client of the population."""
    return jnp.broadcast_to(values, cohort.client.shape) if values.ndim == 0 else values[cohort.client]


def plus_gaussian(
    key: Key, x: Float[Array, "b d"], cohort: Cohort, deviation: Float[Array, " b"]
) -> Float[Array, "b d"]:
    """`x + N(0, deviation^2 I)`, drawn by the client's number: the same bits in every block."""
    unit = standard_normal(key, cohort.client, x.shape[1:])
    return rounded_product(x, key) + rounded_product(deviation[:, None] * unit, key)


def standard_normal(key: Key, client: Int[Array, " b"], shape: tuple[int, ...]) -> Float[Array, "b ..."]:
    """N(0, 1) drawn by each client's number, computed once and rounded: whatever is made of it is made of these bits.

    Without the barrier, the block decides whether XLA multiplies a deviation and the root of 2 in a draw first.
    """
    draw = lambda client: per_client(lambda key: normal(key, shape), key, client)
    return jax.lax.optimization_barrier(by_platform(functools.partial(_once, draw, unknown_zero(key)), draw, client))


def _once(draw: Callable[[Array], Array], zero: Array, client: Array) -> Array:
    """`draw(client)` in a loop of one turn, whose result is kept: XLA computes other values again for each use.

    Over the air there are six uses, so that noise took longer than all else.
    """
    turns = 1 + zero.astype(jnp.int32)  # XLA must not know how many: it would undo the loop
    start = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(draw, client))
    return jax.lax.fori_loop(0, turns, lambda turn, _: draw(client + turn), start)

"""Sparsified updates: a client sends some coordinates of its update, in the clear, with their positions.

With error feedback a client keeps what it did not send and adds it to its next update (Seide et al., Interspeech 2014;
Stich et al., "Sparsified SGD with memory", NeurIPS 2018; Karimireddy et al., ICML 2019). A client whose upload was
rejected or lost keeps the memory it had, and the update of that round is gone, as for any client that drops out. So
what was sent and what is in memory add up to the updates of the accepted rounds, and an update scaled by 1 / (1 -
dropout) is delivered once on average; if it were kept and sent later, it would be delivered more often.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer, Sent
from fedjax_priv.keys import per_client
from fedjax_priv.layers.coordinate_sets import check_sizes, random_coordinates
from fedjax_priv.layers.fixed_point import MAX_FIXED_POINT
from fedjax_priv.layers.group_sums import fixed_point_sum, float_sum
from fedjax_priv.layers.in_the_clear import range_status
from fedjax_priv.layers.stacking import stateless

MOST_PARAMS = (2**32 - 1) // 33
"""Up to this many, all values and a bitmap have fewer than 2**32 bits."""


class Sparse(NamedTuple):
    """Some coordinates of an update: what a client sends instead of `[b, d]`."""

    value: Float32[Array, "b k"]
    position: Int32[Array, "b k"]  # distinct in a row, in no particular order


def rand_k(num_params: int, k: int, *, error_feedback: bool = False) -> Layer:
    """`k` random coordinates of each update `[b, d]`, drawn anew by every client in every round, as a `Sparse`.

    Without error feedback values are scaled by d / k, so their mean over draws is the update; with it they are sent
    unscaled. An update that is not finite sets `NOT_FINITE`, whichever of its coordinates are sent.

    Args:
      num_params: coordinates of an update, d.
      k: coordinates sent.
      error_feedback: keep what was not sent, float32 `[n, d]`, and add it to the next update.

    Raises:
      ValueError: `num_params` or `k` is not an integer >= 1, `k` is above `num_params` or, when a round is traced,
        updates have another size.

    Examples:
      >>> send = stack(random=rand_k(1000, 50), send=plain_sparse(1000))
    """

    def choose(key: Key, public: tuple, v: Array, client: Array) -> Array:
        return per_client(lambda key: random_coordinates(key, num_params, k), key, client)

    return sparsifier(num_params, k, error_feedback, choose, unbiased=True)


def top_k(num_params: int, k: int, *, error_feedback: bool = False) -> Layer:
    """The `k` coordinates of each update `[b, d]` of largest magnitude, as a `Sparse`; biased.

    Arguments and errors are those of `rand_k`; ties go to the lower coordinate.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> x = jnp.array([[0.1, -3.0, 2.0, 0.5]])
      >>> sent, *_ = jax.jit(top_k(4, 2).encode)(jax.random.key(0), (), (), x, cohort_of(1))
      >>> print(sent.value, sent.position)
      [[-3.  2.]] [[1 2]]
    """

    def choose(key: Key, public: tuple, v: Array, client: Array) -> Array:
        return jax.lax.top_k(jnp.abs(v), k)[1]

    return sparsifier(num_params, k, error_feedback, choose, unbiased=False)


def plain_sparse(num_params: int, num_groups: int = 1, *, exact: bool = True) -> Layer:
    """The innermost layer below a sparsifier: a `Sparse` in the clear, scattered and summed by group to `[g, d]`.

    A message has 32 bits per value plus the cheaper encoding of positions: k positions of ceil(log2 d) bits, or a
    bitmap of d bits. k and d determine which one, so announcing it costs nothing.

    Args:
      num_params: coordinates of an update, d.
      num_groups: rows the server holds.
      exact: sum in fixed point or as floats, with the range of values of `plain`.

    Raises:
      ValueError: a number is not an integer >= 1, `exact` is no bool, or `num_params` is so large that the bits of a
        message would not fit uint32.

    Examples:
      >>> send = stack(top=top_k(1000, 50), send=plain_sparse(1000))
    """
    num_params = _validate.integer(num_params=num_params)
    if num_params > MOST_PARAMS:
        raise ValueError(f"num_params must be at most {MOST_PARAMS}: bits are counted in uint32, got {num_params}")
    _validate.one_of((True, False), exact=exact)
    dense = fixed_point_sum(num_groups) if exact else float_sum(num_groups)
    limit = MAX_FIXED_POINT if exact else jnp.inf

    def lift(y: Sparse, alive: Array, group: Array) -> PyTree:
        rows = jax.vmap(lambda row: jnp.zeros(num_params, jnp.float32).at[row.position].add(row.value))(y)
        return dense.lift(rows, alive, group)

    def sent(x: Sparse, y: Sparse) -> Sent:
        return Sent(sparse_bits(num_params, y.position.shape[1]), refused=range_status(x.value, limit))

    return stateless(sent=sent, combine=dense._replace(lift=lift))


def sparse_bits(num_params: int, k: int) -> int:
    """Bits of a message of `k` values out of `num_params`, see `plain_sparse`."""
    return 32 * k + min(k * (num_params - 1).bit_length(), num_params)


def sparsifier(
    num_params: int,
    k: int,
    error_feedback: bool,
    choose: Callable[[Key, PyTree, Array, Array], Array],
    *,
    unbiased: bool,
) -> Layer:
    """The `k` coordinates of each update `[b, d]` that `choose` picks, as a `Sparse`.

    Other arguments and errors are those of `rand_k`.

    Args:
      choose: (key, public values of the layer, vectors [b, d], client [b]) -> positions [b, k].
      unbiased: without error feedback, scale values by d / k.
    """
    check_sizes(num_params, k=k)
    _validate.one_of((True, False), error_feedback=error_feedback)
    factor = num_params / k if unbiased and not error_feedback else 1.0

    def encode(key: Key, memory: PyTree, public: PyTree, x: Array, cohort: Cohort) -> tuple[Sparse, PyTree, Sent]:
        check_width(x, num_params)
        v = x + memory if error_feedback else x
        position = choose(key, public, v, cohort.client)
        y = Sparse(factor * jnp.take_along_axis(v, position, axis=1), position)
        kept = jax.vmap(lambda v, position: v.at[position].set(0))(v, position) if error_feedback else ()
        return y, kept, Sent(status=range_status(v, jnp.inf))

    return stateless()._replace(
        init=lambda key, n: jnp.zeros((n, num_params), jnp.float32) if error_feedback else (),
        advertise=lambda key, state, cohort: (state, (), {}),
        encode=encode,
    )


def check_width(x: Array, num_params: int) -> None:
    """Raises ValueError unless updates `[b, d]` have `num_params` coordinates."""
    if x.shape[1] != num_params:
        raise ValueError(f"num_params must be the size of an update, {x.shape[1]}, got {num_params}")

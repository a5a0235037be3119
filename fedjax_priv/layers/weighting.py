"""Weights of clients in a sum, and the means that divide it again."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Bits, Cohort, Key, Layer, Link, Received, Sent
from fedjax_priv.layers.group_sums import fixed_point_sum
from fedjax_priv.layers.receive_level import Level, checked_level, is_one, level_of_cohort
from fedjax_priv.layers.stacking import stateless


def scale(factor: float | Array = 1.0) -> Layer:
    """`x -> factor * beta_i * x`, so that the sum is weighted.

    With `factor = 1 / (1 - dropout)` the expected sum over survivors is `sum_i beta_i x_i` over all clients (SecAgg and
    SparseSecAgg, eq. 16 with p = 1).

    Raises:
      ValueError: `factor` is not > 0.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> x = jnp.array([[8.0], [4.0]])
      >>> print(jax.jit(scale(2.0).encode)(jax.random.key(0), (), (), x, cohort_of(2))[0])  # weights are 1/2
      [[8.]
       [4.]]
    """
    factor = _validate.positive(factor=factor)

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d"]:
        del key
        return x * (cohort.weight * factor)[:, None]

    return stateless(encode)


def over_participation() -> Layer:
    """`x -> x / p_k`, of clients that join with probability p_k: the mean of a sum is then that over the cohort."""

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d"]:
        del key
        return x / jnp.where(cohort.selected, cohort.participation, 1)[:, None]

    return stateless(encode)


def weighted_mean() -> Layer:
    """The mean of the updates that arrive, weighted by beta_i: `sum beta_i x_i / sum beta_i` over survivors.

    The weights travel as one more coordinate, so a secure sum hides them too.

    Examples:
      >>> from fedjax_priv.testing import cohort_of, run_layer
      >>> send, cohort = stack(mean=weighted_mean(), send=plain()), cohort_of(2, weight=[0.75, 0.25])
      >>> found = run_layer(send, jax.random.key(0), jnp.array([[1.0], [5.0]]), cohort, jnp.array([True, True]))
      >>> print(found["received"].value)
      [[2.]]
    """
    return weighted_by(lambda cohort: cohort.weight)


def weighted_by(weights: Callable[[Cohort], Float[Array, " b"]]) -> Layer:
    """The mean of the updates that arrive, weighted by `weights(cohort) [b]`, which travel as one more coordinate."""

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d+1"]:
        del key
        weight = weights(cohort)[:, None]
        return jnp.concatenate([weight * x, weight], axis=1)

    def decode(received: Received) -> Received:
        total = received.value[:, -1:]
        mean = jnp.where(total > 0, received.value[:, :-1] / jnp.where(total > 0, total, 1), 0)
        return received._replace(value=mean)

    return stateless(encode, decode)


UPDATE, WEIGHT = slice(None, -1), slice(-1, None)
"""Columns of an upload below `weighted_mean`."""


def on_columns(layer: Layer, columns: slice) -> Layer:
    """A layer of rows, on these columns of each row; the others pass as they are.

    Args:
      layer: whose `encode` takes and makes rows `[b, w]`, and whose `decode` rows `[g, w]`.
      columns: w of the d of a row, such as `UPDATE` and `WEIGHT`.
    """

    def encode(key: Key, private: PyTree, public: PyTree, x: Array, cohort: Cohort) -> tuple[Array, PyTree, Sent]:
        y, state, sent = layer.encode(key, private, public, x[:, columns], cohort)
        return x.at[:, columns].set(y), state, sent

    def decode(header: PyTree, public: PyTree, received: Received) -> Received:
        decoded = layer.decode(header, public, received._replace(value=received.value[:, columns]))
        return decoded._replace(value=received.value.at[:, columns].set(decoded.value))

    return layer._replace(encode=encode, decode=decode)


def average() -> Layer:
    """The mean of each group's uploads that arrive, `sum_i x_i / count`; zero if none does.

    Examples:
      >>> send = stack(average=average(), send=plain())
    """

    def decode(received: Received) -> Received:
        count = jnp.maximum(received.count, 1).astype(jnp.float32)
        return received._replace(value=received.value / count[:, None])

    return stateless(decode=decode)._replace(needs_count=True)


def over_the_air_mean(
    *, known_count: bool = True, level: Level = 1.0, expected_count: float | Array | None = None
) -> Layer:
    """The mean of aligned uploads, from the one sum a receiver gets (wireless FedSGD, eqs. 9 and 10).

    If the number R of uploads is known: `y / (zeta R)`, or 0 if R = 0, with `zeta = 1 - prod_k (1 - p_k)`. If not:
    `y / m` with `m = sum_k p_k`, the receiver's noise included even if R = 0. The server knows every p_k, and the
    clients of the cohort join independently. A round without uploads is valid. If R is unknown, a round that nobody
    could join, m = 0, fails. Uploads received at level c_t are divided by c_t too.

    Args:
      known_count: whether the server knows R.
      level: c_t, that of `align`.
      expected_count: divides in place of m where R is not used, > 0: of n clients that send where their channel is good
        enough, n times the probability that it is. m itself is of this round's channels. None: m.

    Raises:
      ValueError: an argument outside its range, or `expected_count` where R is known.

    Examples:
      >>> send = stack(mean=over_the_air_mean(known_count=False), align=align(0.1, max_norm=1.0), send=waveform())
    """
    _validate.one_of((True, False), known_count=known_count)
    level, unit = checked_level(level), is_one(level)
    if expected_count is not None:
        expected_count = _validate.positive(expected_count=expected_count)
        if known_count:
            raise ValueError(f"expected_count must be None where known_count is True, got {expected_count!r}")

    def divisor(p: Float[Array, " n"]) -> Array:
        if known_count:
            return -jnp.expm1(jnp.log1p(-p).sum())
        return p.sum() if expected_count is None else jnp.where(jnp.isfinite(p).all(), expected_count, jnp.nan)

    def advertise(key: Key, state: tuple, cohort: Cohort) -> tuple[tuple, Array, Bits]:
        del key, state
        by = divisor(cohort.participation)
        return (), by if unit else by * level_of_cohort(level, cohort), {}

    def decode(header: tuple, public: Array, received: Received) -> Received:
        del header
        if not known_count:
            return received._replace(value=received.value / public, count=jnp.ones_like(received.count))
        number = jnp.maximum(received.count, 1).astype(jnp.float32)
        mean = received.value / (public * number)[:, None]
        empty = jnp.where(jnp.isnan(public), jnp.nan, 0)  # unknown is not zero
        value = jnp.where(received.count[:, None] > 0, mean, empty)
        return received._replace(value=value, count=jnp.ones_like(received.count))

    return stateless()._replace(advertise=advertise, decode=decode, needs_count=known_count)


def public_weighted_mean(num_groups: int = 1, *, factor: float | Array = 1.0) -> Layer:
    """The weighted mean of the updates that arrive; clients tell the server their weights when the round opens.

    `sum factor beta_i x_i / sum beta_i` over survivors. Use it if only a part of each update is sent, so that no
    coordinate can carry the weights in secret as in `weighted_mean`.

    Examples:
      >>> send = stack(mean=public_weighted_mean(), random=rand_k(1000, 50), send=plain_sparse(1000))
    """
    weigh, sums = scale(factor), fixed_point_sum(num_groups)

    def advertise(key: Key, state: tuple, cohort: Cohort) -> tuple[tuple, tuple, Bits]:
        del key, state
        up = jnp.where(cohort.selected, jnp.uint32(32), 0)
        return (), (cohort.weight, cohort.group), {"advertise": Link(up, jnp.zeros_like(up))}

    def disclose(private: tuple, public: tuple, clear: tuple, alive: Array, online: Array) -> tuple[Array, Bits]:
        del private, public, clear, online
        return alive, {}

    def decode(header: Array, public: tuple, received: Received) -> Received:
        weight, group = public
        total = sums.lower(sums.lift(weight[:, None], header, group)).value
        return received._replace(value=jnp.where(total > 0, received.value / jnp.where(total > 0, total, 1), 0))

    return weigh._replace(advertise=advertise, disclose=disclose, decode=decode)

"""Means of updates that began from older models: the older, the less they weigh."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.base import Bits, Cohort, Key, Layer, Received, absent
from fedjax_priv.layers.stacking import stateless
from fedjax_priv.layers.weighting import weighted_by


def discounted_mean(power: float | Array = 0.5, *, total: float | None = None) -> Layer:
    """`sum s(tau_i) x_i / total` with `s(tau) = (1 + tau)^-power`, tau the staleness of a client (FedBuff, section 4).

    Staleness is public. FedBuff has `power=0.5` and `total` the size of the buffer.

    Args:
      power: >= 0; 0 weighs all alike. May be traced.
      total: what the sum is divided by, > 0. None: the sum of the weights of the updates that arrive.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> from fedjax_priv.testing import cohort_of, run_layer
      >>> cohort = cohort_of(2)._replace(staleness=jnp.array([0, 3]))
      >>> send, x = stack(mean=discounted_mean(total=2), send=plain()), jnp.array([[4.0], [8.0]])
      >>> print(run_layer(send, jax.random.key(0), x, cohort, jnp.array([True, True]))["received"].value)
      [[4.]]
    """
    power = _validate.non_negative(power=power)

    def weight(cohort: Cohort) -> Float[Array, " b"]:
        return (1.0 + cohort.staleness.astype(jnp.float32)) ** -power

    if total is None:
        return weighted_by(weight)
    _validate.positive(total=total)

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d"]:
        del key
        return x * weight(cohort)[:, None]

    def decode(received: Received) -> Received:
        return received._replace(value=received.value / total)

    return stateless(encode, decode)


def mean_by_factors(*, total: float | None = None) -> Layer:
    """`sum f_i x_i / sum f_i` over the uploads that arrive, f_i the public integer that the server multiplies x_i by.

    The factors are `Cohort.factor`, such as those of `clients.weighed_by_staleness`, and 1 where the cohort has none.
    The innermost layer multiplies; this one divides.

    Args:
      total: what the sum is divided by instead, > 0.

    Raises:
      ValueError: `total` is not > 0.

    Examples:
      >>> from fedjax_priv.testing import cohort_of, run_layer
      >>> cohort = cohort_of(2)._replace(factor=jnp.array([3, 1], jnp.uint32))
      >>> send = stack(mean=mean_by_factors(), quantize=quantize(2.0**10, 4), send=plain_field())
      >>> x = jnp.array([[4.0], [8.0]])
      >>> print(run_layer(send, jax.random.key(0), x, cohort, jnp.array([True, True]))["received"].value)
      [[5.]]
    """
    if total is not None:
        _validate.positive(total=total)

    def advertise(key: Key, state: tuple, cohort: Cohort) -> tuple[tuple, Array, Bits]:
        del key, state
        none = absent(cohort.factor)
        return (), jnp.ones(cohort.client.shape, jnp.uint32) if none else cohort.factor, {}

    def disclose(private: tuple, public: Array, clear: tuple, alive: Array, online: Array) -> tuple[Array, Bits]:
        del private, clear, online
        return jnp.where(alive, public, 0).sum(dtype=jnp.uint32).astype(jnp.float32), {}

    def decode(header: Array, public: Array, received: Received) -> Received:
        del public
        by = jnp.float32(total) if total is not None else header
        return received._replace(value=jnp.where(by > 0, received.value / jnp.where(by > 0, by, 1), 0))

    return stateless()._replace(advertise=advertise, disclose=disclose, decode=decode)

"""Digital uploads of few bits: updates rounded at random to few levels, without bias, and what they take on a link."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer, Sent
from fedjax_priv.crypto.prg import bits
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.keys import named, per_client
from fedjax_priv.layers.fixed_point import MAX_FIXED_POINT
from fedjax_priv.layers.group_sums import counted, fixed_point_sum
from fedjax_priv.layers.in_the_clear import range_status
from fedjax_priv.layers.stacking import stateless

MOST_LEVELS = 2**24
"""Integers up to it are float32 numbers."""


def qsgd(levels: int = 1, num_groups: int = 1) -> Layer:
    """Uploads of `||x|| sign(x_i) xi_i / s`; xi_i is `s |x_i| / ||x||`, rounded up or down at random without bias.

    Source: QSGD, Alistarh et al. 2017.

    A message has 32 bits for the norm and `1 + ceil(log2(s + 1))` for each coordinate: sign and level at fixed length.
    (The paper codes them by Elias.) `theory.quantizers.qsgd_error` has the squared error.

    Args:
      levels: s above 0, from 1 to 2**24.
      num_groups: rows the server holds.

    Raises:
      ValueError: an argument is outside its range.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> print(jax.jit(qsgd(5).encode)(jax.random.key(0), (), (), jnp.array([[3.0, -4.0]]), cohort_of(1))[0])
      [[ 3. -4.]]
    """
    _validate.integer(levels=levels)
    _validate.at_most(MOST_LEVELS, levels=levels)
    each = 1 + math.ceil(math.log2(levels + 1))

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d"]:
        norm = jnp.linalg.norm(x, axis=1, keepdims=True)
        exact = levels * jnp.abs(x) / jnp.where(norm == 0, 1, norm)
        level = _rounded(key, jnp.minimum(exact, levels), cohort)  # |x_i| may be an ulp more than the norm
        return norm * jnp.sign(x) * (level / levels)

    return _digital(encode, each, 32, num_groups)


def uniform_levels(bits: int = 8, *, limit: float | Array = 1.0, num_groups: int = 1) -> Layer:
    """Uploads clipped to [-A, A] and rounded at random to one of 2**b even levels, b bits a coordinate.

    Unbiased where no coordinate is clipped, with a variance of at most `(2 A / (2**b - 1))**2 / 4` at each.

    Args:
      bits: b, from 1 to 24.
      limit: A in (0, 2**15], what a sum takes; may be traced.
      num_groups: rows the server holds.

    Raises:
      ValueError: an argument is outside its range.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> x, grid = jnp.array([[1.0, -9.0]]), uniform_levels(1, limit=1.0)
      >>> print(jax.jit(grid.encode)(jax.random.key(0), (), (), x, cohort_of(1))[0])
      [[ 1. -1.]]
    """
    _validate.one_of(range(1, 25), bits=bits)
    limit = _validate.up_to(MAX_FIXED_POINT, limit=limit)
    step = 2 * limit / (2**bits - 1)

    def encode(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d"]:
        kept = jnp.where(jnp.isfinite(x), jnp.clip(x, -limit, limit), jnp.nan)
        level = _rounded(key, (kept + limit) / step, cohort)
        return step * jnp.minimum(level, 2**bits - 1) - limit  # A may be an ulp more than 2**b - 1 steps

    return _digital(encode, bits, 0, num_groups)


def coded(
    send: Layer,
    *,
    power: float | Array = 1.0,
    receiver_noise: float | Array = 1.0,
    fixed_rate: float | Array | None = None,
) -> Layer:
    """Uploads of `send`, which each client sends over its own coded link. They take `bits / rate` uses of the channel.

    The rate is Shannon's, `log2(1 + h_k**2 P / N0) / 2` bits a real use, of a sender that knows its gain; or fixed,
    above `channels.outage`. Measured, for those that send, else 0: `rate`, `channel_uses` and `energy`, P a use; and
    `gain` and `join_probability`.

    Args:
      send: the innermost layer, which says how many bits it sends, such as `qsgd(1)`.
      power: P > 0, energy of a use of the channel; may be traced.
      receiver_noise: N0 > 0; may be traced.
      fixed_rate: bits a use, > 0, of clients that do not know their gains; None: Shannon's rate.

    Raises:
      ValueError: an argument is not > 0, or `send` is no innermost layer.

    Examples:
      >>> send = stack(average=average(), send=coded(qsgd(1), power=10.0))
    """
    _validate.part(Layer, "layers.qsgd()", send=send)
    if send.combine is None:
        raise ValueError("send must be an innermost layer, such as layers.qsgd(), got one without a sum")
    power, receiver_noise = _validate.positive(power=power), _validate.positive(receiver_noise=receiver_noise)
    fixed = None if fixed_rate is None else _validate.positive(fixed_rate=fixed_rate)

    def encode(key: Key, private: Any, public: Any, x: Array, cohort: Cohort) -> tuple:
        y, state, sent = send.encode(key, private, public, x, cohort)
        rate = link_rate(cohort.gain, power / receiver_noise) if fixed is None else jnp.full_like(cohort.gain, fixed)
        uses = jnp.broadcast_to(jnp.asarray(sent.bits).astype(jnp.float32), rate.shape) / rate
        link = only_rows(cohort.selected, {"rate": rate, "channel_uses": uses, "energy": power * uses})
        known = {"gain": cohort.gain, "join_probability": cohort.participation}
        return y, state, sent._replace(measured={**dict(sent.measured), **known, **link}, each=())

    return send._replace(encode=encode)


def link_rate(gain: Float[Array, " n"], snr: float | Array) -> Float[Array, " n"]:
    """Bits that a real use of a link carries, `log2(1 + h**2 snr) / 2`."""
    return jnp.log1p(jnp.square(gain) * snr) * (0.5 / math.log(2))


def _digital(encode: Callable[..., Array], each: int, more: int, num_groups: int) -> Layer:
    """An innermost layer of messages of `each` bits for a coordinate, and some more."""

    def sent(x: Array, y: Array) -> Sent:
        return Sent(counted(each * x.shape[1] + more), refused=range_status(y, MAX_FIXED_POINT), each=each)

    return stateless(encode, sent=sent, combine=fixed_point_sum(num_groups))


def _rounded(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d"]:
    """To an integer next to it, at random; the mean is x, to 2**-55.

    A word decides, where it does not fall on the threshold; there a number of the client does.
    """
    low = jnp.floor(x)
    threshold = (x - low) * 2.0**32
    whole = jnp.floor(threshold)
    words = per_client(lambda key: bits(key, "stochastic levels", x.shape[1:]), key, cohort.client)
    ties = per_client(jax.random.uniform, named(key, "ties"), cohort.client)[:, None]
    least = whole.astype(jnp.uint32)
    up = (words < least) | ((words == least) & (ties < threshold - whole))
    return low + up.astype(jnp.float32)

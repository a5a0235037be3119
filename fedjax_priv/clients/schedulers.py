"""Schedulers: a few clients send in a round, in turns or by the gains of their links. Who sends is public."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PyTree, UInt

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Draw, Key
from fedjax_priv.channels import Fading, constant
from fedjax_priv.channels.knowledge import known_gains
from fedjax_priv.clients.cohort_rows import Counts, cohort_of
from fedjax_priv.keys import named
from fedjax_priv.layers.stochastic_levels import link_rate


def round_robin(size: int, fading: Fading | None = None) -> Draw:
    """`size` clients per round in turns: in round t, clients `t r, ..., t r + r - 1` modulo the number of clients.

    Args:
      size: r, clients of a round.
      fading: gains of the clients' links; None: all 1.

    Raises:
      ValueError: `size` is not an integer >= 1 or, when the round is traced, exceeds the population.

    Examples:
      >>> draw = round_robin(2)
      >>> cohort, _ = draw.apply(jax.random.key(0), draw.init(jax.random.key(0), 5), jnp.array(2), jnp.ones(5, int))
      >>> print(cohort.client)
      [0 4]
    """

    def turn(round: Array, gain: Array, average: tuple) -> tuple[Array, tuple]:
        return _turn(round, size, gain.size), average

    return _scheduled(size, turn, fading)


def best_gains(size: int, *, snr: ArrayLike = 1.0, fading: Fading | None = None) -> Draw:
    """The `size` clients with the largest received SNR, `h_k**2 snr_k`.

    Clients with a poor link hardly ever send, so the model fits the others: report how often each client took part.

    Args:
      size: r, clients of a round.
      snr: P_k / N0 > 0, one for all clients or `[n]`.
      fading: gains of the clients' links; None: all 1.

    Raises:
      ValueError: as in `round_robin`; or `snr` is not > 0, or (by `init`) has neither 1 nor n values.

    Examples:
      >>> draw = best_gains(2, snr=np.array([1.0, 100.0, 10.0]))
      >>> cohort, _ = draw.apply(jax.random.key(0), draw.init(jax.random.key(0), 3), jnp.array(0), jnp.ones(3, int))
      >>> print(cohort.client)
      [1 2]
    """
    each = _validate.array(_validate.positive, snr=snr)

    def best(round: Array, gain: Array, average: tuple) -> tuple[Array, tuple]:
        return jax.lax.top_k(jnp.square(gain) * each, size)[1], average

    return _scheduled(size, best, fading, snr=snr)


def proportional_fair(
    size: int, *, snr: ArrayLike = 1.0, window: float | Array = 100.0, fading: Fading | None = None
) -> Draw:
    """The `size` clients with the largest rate relative to their own average rate, `rate_k / avg_k`.

    `rate_k = log2(1 + h_k**2 snr_k) / 2`, and `avg_k <- (1 - 1/w) avg_k + rate_k / w`, with the last term only if k
    sends. At the start the average is the rate at gain 1. Each client sends when its own link is good. All send about
    equally often, and exactly so if rates are linear in the SNR.

    Args:
      size: r, clients of a round.
      snr: P_k / N0 > 0, one for all clients or `[n]`.
      window: w >= 1, about how many rounds the average covers.
      fading: gains of the clients' links; None: all 1.

    Raises:
      ValueError: as in `best_gains`; or `window` is below 1.

    Examples:
      >>> draw = proportional_fair(1, window=10.0, fading=fedjax_priv.channels.rayleigh())
    """
    each = _validate.array(_validate.positive, snr=snr)
    weight = 1 / _validate.at_least_one(window=window)

    def fairest(round: Array, gain: Array, average: Array) -> tuple[Array, Array]:
        rate = link_rate(gain, each)
        client = jax.lax.top_k(rate / average, size)[1]
        sent = jnp.zeros_like(rate).at[client].set(rate[client])
        return client, (1 - weight) * average + weight * sent

    return _scheduled(size, fairest, fading, start=lambda n: link_rate(jnp.ones(n, jnp.float32), each), snr=snr)


def _turn(round: Array, size: int, n: int) -> UInt[Array, " r"]:
    """`round * size, ..., round * size + size - 1` modulo n, by doubling: no sum needs more than 32 bits."""
    round, first = round.astype(jnp.uint32) % n, jnp.uint32(0)
    for bit in f"{size:b}":
        first = 2 * first % n
        first = (first + round) % n if bit == "1" else first
    return (first + jnp.arange(size, dtype=jnp.uint32)) % n


def _scheduled(
    size: int,
    choose: Callable[[Array, Float[Array, " n"], PyTree], tuple[Int[Array, " r"], PyTree]],
    fading: Fading | None,
    start: Callable[[int], PyTree] = lambda n: (),
    **of_clients: ArrayLike,
) -> Draw:
    """A draw of the clients that `choose(round, gain, average) -> (client [r], average)` returns, in any order.

    The draw's state is the state of the gains and the average.
    """
    _validate.integer(size=size)
    gains = constant() if fading is None else fading
    _validate.part(Fading, "channels.rayleigh()", fading=gains)

    def init(key: Key, n: int) -> tuple[PyTree, PyTree]:
        for name, value in of_clients.items():
            _validate.per_client(n, **{name: value})
        return gains.init(named(key, "fading"), n), start(n)

    def apply(key: Key, state: tuple, round: Int[Array, ""], count: Counts) -> tuple[Cohort, tuple]:
        if size > count.size:
            raise ValueError(f"size must be at most the number of clients, {count.size}, got {size}")
        gain, coefficient, links = known_gains(gains, key, state[0], round, count.size)
        client, average = choose(round, gain, state[1])
        client = jnp.sort(client).astype(jnp.int32)
        turned = jax.tree.map(lambda each: each[client], coefficient)
        return cohort_of(client, round, count)._replace(gain=gain[client], coefficient=turned), (links, average)

    return Draw(init, apply, knowledge=gains.knowledge)

"""Cohorts of fixed size; after each of its rounds, a client stays away for some rounds."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Int32

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Draw, Key
from fedjax_priv.clients.cohort_rows import Counts, cohort_of
from fedjax_priv.keys import named


def separated(size: int, separation: int) -> Draw:
    """`size` clients per round, uniformly among those that took part in none of the last `separation - 1` rounds.

    So two rounds of a client are at least b = `separation` apart, as the sensitivity of correlated noise requires
    (Choquette-Choo et al. 2023, arXiv 2306.08153). Failed rounds count too. The draw's state is the round in which each
    client is free again; time and memory of a round grow with the population.

    Args:
      size: clients of a round, at least 1.
      separation: b, at least 1; with 1 it has the law of `sample(size)`, but other random bits.

    Raises:
      ValueError: `size` or `separation` is not an integer >= 1 or, by `init`, the population is below
        `size * separation`, so that some round would have too few free clients.

    Examples:
      >>> draw = separated(10, separation=5)  # of at least 50 clients
    """
    _validate.integer(size=size, separation=separation)

    def init(key: Key, n: int) -> Int32[Array, " n"]:
        del key
        check_separation(n, size, separation)
        return jnp.zeros(n, jnp.int32)

    def apply(
        key: Key, free: Int32[Array, " n"], round: Int[Array, ""], count: Counts
    ) -> tuple[Cohort, Int32[Array, " n"]]:
        order = jax.random.permutation(named(key, "sample"), count.size)
        away = free[order] > round
        client = jnp.sort(order[jnp.argsort(away, stable=True)[:size]])
        return cohort_of(client, round, count), free.at[client].set(round + separation)

    return Draw(init, apply)


def check_separation(num_clients: int, size: int, separation: int) -> None:
    """Checks that every round finds `size` free clients.

    Raises:
      ValueError: there are fewer than `size * separation` clients.
    """
    if num_clients < size * separation:
        raise ValueError(
            f"separation must be at most {num_clients // size}, the rounds that {num_clients} clients last for in "
            f"cohorts of {size}, got {separation}"
        )

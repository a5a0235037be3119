"""Cohorts in which each client takes part by its own coin, in fixed memory: for DP-FedAvg and banded noise.

First the number of clients is drawn from the exact binomial law, then a uniform subset of this size. This is the law of
independent coins. Rows of the cohort that nobody takes hold clients that are not selected.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Draw, Key
from fedjax_priv.clients.cohort_rows import Counts, cohort_of, only_those, uniform_subset
from fedjax_priv.keys import each_named
from fedjax_priv.layers.secure_sum.alias_table import AliasTable, alias_table, draw

NEVER = 1e-15
"""Probability that a round has more clients than a cohort of default capacity has rows."""


def poisson(rate: float | Array, *, capacity: int | None = None) -> Draw:
    """Each client tosses its own coin in each round (Poisson sampling; McMahan et al. 2018, Algorithm 1).

    Time and memory of a round grow with `capacity`, not with the population.

    Args:
      rate: q, probability of each client in each round, in (0, 1]; not traced.
      capacity: rows of the cohort. If coins choose more clients, a uniform subset of this size takes part, and who
        takes part counts as public. None: enough rows that this happens with probability below 1e-15.

    Raises:
      ValueError: `rate` is outside (0, 1] or traced, or, when a round is traced, `capacity` is below the expected
        number of clients or above the population.

    Examples:
      >>> draw = poisson(0.01, capacity=150)  # of 10,000 clients: 100 come on average
    """
    return cyclic_poisson(rate, 1, capacity=capacity)


def cyclic_poisson(rate: float | Array, separation: int, *, capacity: int | None = None) -> Draw:
    """Client i belongs to the fixed, public group `i mod b`; in round t the clients of group `t mod b` toss a coin.

    So any two rounds of a client are a multiple of b apart (Choquette-Choo et al. 2023, arXiv 2306.08153, where b is
    the number of bands of the noise).

    Args:
      rate: q, probability of each client of the group whose turn it is, in (0, 1]; not traced.
      separation: b, number of groups, at least 1; it divides the population.
      capacity: rows of the cohort, as in `poisson`.

    Raises:
      ValueError: as in `poisson`; or `separation` is not an integer >= 1 or, when a round is traced, does not divide
        the number of clients.

    Examples:
      >>> draw = cyclic_poisson(0.1, separation=10)  # a client may come in every tenth round
    """
    check_rate("rate", rate)
    _validate.integer(separation=separation)
    if capacity is not None:
        _validate.integer(capacity=capacity)

    def apply(key: Key, state: tuple, round: Int[Array, ""], count: Counts) -> tuple[Cohort, tuple]:
        _validate.divides({"separation": separation}, num_clients=count.size)
        group = count.size // separation
        size = capacity_of(capacity, group, rate)
        keys = each_named(key, ("how many", "sample", "which rows"))
        number = _number(keys["how many"], group, float(rate), size)
        client = uniform_subset(keys["sample"], size, group) * separation + round % separation
        comes = jax.random.permutation(keys["which rows"], size) < number
        who = cohort_of(client, round, count)
        if size < capacity_of(None, group, rate):  # the cohort may be full, and then its rows are not independent coins
            return only_those(who, comes), state
        return who._replace(selected=comes, participation=jnp.full(size, float(rate) * group / size)), state

    return Draw(lambda key, n: (), apply, period=separation, by_coins=float(rate) < 1)


def check_rate(name: str, rate: float | Array) -> None:
    """Checks the probability of a coin; the error names the argument `name`.

    Raises:
      ValueError: `rate` is traced or outside (0, 1].
    """
    _validate.known(**{name: rate})
    _validate.fraction(below_one=False, above_zero=True, **{name: rate})


def capacity_of(capacity: int | None, num_clients: int, rate: float | Array) -> int:
    """Rows of a Poisson cohort: the number given, or one that is exceeded with probability below 1e-15.

    Raises:
      ValueError: `capacity` is no integer from `rate * num_clients` to `num_clients`.
    """
    from scipy.stats import binom  # slow to import

    if capacity is None:
        return min(num_clients, max(1, int(binom.isf(NEVER, num_clients, rate))))
    capacity = _validate.integer(capacity=capacity)
    expected = float(rate) * num_clients
    if not expected <= capacity <= num_clients:
        raise ValueError(
            f"capacity must be from {expected:g}, the expected number of clients, to their number, {num_clients}, "
            f"got {capacity}"
        )
    return capacity


def _number(key: Key, num_clients: int, rate: float, most: int) -> Array:
    """min(n, most) with n ~ Bin(num_clients, rate), within 2**-62 at each outcome."""
    words = jax.random.bits(key, (2, 1), jnp.uint32)
    return draw(_law(num_clients, rate, most), *words)[0].astype(jnp.int32)


@functools.lru_cache(maxsize=32)
def _law(num_clients: int, rate: float, most: int) -> AliasTable:
    from scipy.stats import binom

    at_most = binom.pmf(np.arange(most), num_clients, rate)
    return alias_table(np.append(at_most, binom.sf(most - 1, num_clients, rate)))

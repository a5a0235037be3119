"""Rows of a cohort, and uniform subsets of a population: helpers of all draws."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from fedjax_priv.base import Cohort, Draw, Key
from fedjax_priv.base.byzantine_clients import Byzantine, are_byzantine, check_byzantine
from fedjax_priv.engine.quotients import quotient

Counts = Int[Array, " n"] | Int[np.ndarray, " n"]
"""Samples of each client of the population."""


def cohort_of(client: Array, round: Array, count: Counts) -> Cohort:
    """All these clients selected, honest, in one group, with unit gain; beta_i relative to the whole population."""
    n = client.size
    return Cohort(
        client=client,
        round=jnp.broadcast_to(round, n),
        weight=quotient(jnp.asarray(count)[client].astype(jnp.float32), jnp.maximum(count.sum(), 1)),
        selected=jnp.ones(n, bool),
        byzantine=jnp.zeros(n, bool),
        group=jnp.zeros(n, jnp.int32),
        gain=jnp.ones(n, jnp.float32),
        participation=jnp.ones(n, jnp.float32),
        staleness=jnp.zeros(n, jnp.int32),
    )


def only_those(who: Cohort, there: Bool[Array, "..."]) -> Cohort:
    """`who` without the clients where `there` is False. Everybody knows who they are, and their p_k is 0.

    `there` is `[n]`, or one value for all clients.
    """
    return who._replace(selected=who.selected & there, participation=jnp.where(there, who.participation, 0))


def marked(draw: Draw, num_byzantine: Byzantine) -> Draw:
    """The same draw, in which exactly these clients of the population are Byzantine.

    Raises:
      ValueError: `num_byzantine` is neither an integer >= 0 nor a mask or, when the round is traced, it exceeds the
        population or is a mask of another length.
    """
    check_byzantine(num_byzantine=num_byzantine)

    def apply(key: Key, state: PyTree, round: Int[Array, ""], count: Counts) -> tuple[Cohort, PyTree]:
        who, state = draw.apply(key, state, round, count)
        return who._replace(byzantine=are_byzantine(who.client, count.size, num_byzantine=num_byzantine)), state

    return draw._replace(apply=apply, byzantine=num_byzantine)


def uniform_subset(key: Key, size: int, population: int) -> Int[Array, " size"]:
    """A uniform subset of `0, ..., population - 1`, in ascending order.

    A small subset is drawn number by number; repeated numbers and numbers outside the population are drawn again until
    none is left. The procedure treats all numbers alike, so all subsets are equally likely. Numbers are plain random
    bits: nothing is rounded. At least three draws in eight are kept, so few repetitions are needed.
    """
    if 4 * size > population:
        return jnp.sort(jax.random.choice(key, population, (size,), replace=False))
    spare = jnp.uint32(32 - (population - 1).bit_length())

    def misses(numbers: Array) -> Array:
        again = jnp.concatenate([jnp.zeros(1, bool), numbers[1:] == numbers[:-1]])
        return again | (numbers >= population)

    def draw(state: tuple[Array, Array]) -> tuple[Array, Array]:
        numbers, time = state
        bits = jax.random.bits(jax.random.fold_in(key, time), (size,), jnp.uint32)
        return jnp.sort(jnp.where(misses(numbers), bits >> spare, numbers)), time + 1

    none = jnp.full(size, population, jnp.uint32)
    numbers, _ = jax.lax.while_loop(lambda state: misses(state[0]).any(), draw, (none, jnp.int32(0)))
    return numbers.astype(jnp.int32)

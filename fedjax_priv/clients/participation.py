"""Draws: which clients take part in a round."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Draw, Key
from fedjax_priv.base.byzantine_clients import Byzantine
from fedjax_priv.channels import Fading, constant
from fedjax_priv.channels.knowledge import known_gains
from fedjax_priv.clients.cohort_rows import (
    Counts,
    cohort_of,
    marked,
    only_those,
    uniform_subset,
)
from fedjax_priv.engine.quotients import quotient
from fedjax_priv.keys import named, per_client


def everyone(num_groups: int = 1, *, num_byzantine: Byzantine = 0) -> Draw:
    """All clients, every round.

    Args:
      num_groups: number of groups, whose sizes differ by at most one; a new random permutation forms them in each
        round. With as many groups as clients, each client's group is its place in the cohort.
      num_byzantine: clients 0 to `num_byzantine - 1` are Byzantine; or a mask of the Byzantine clients, bool `[n]`.

    Raises:
      ValueError: an argument is out of range or, when the round is traced, `num_byzantine` exceeds the number of
        clients or the mask has another length.

    Examples:
      >>> draw = everyone(num_groups=10)
      >>> draw.num_groups
      10
    """
    _validate.integer(num_groups=num_groups)

    def apply(key: Key, state: tuple, round: Int[Array, ""], count: Counts) -> tuple[Cohort, tuple]:
        who = cohort_of(jnp.arange(count.size), round, count)
        return _in_groups(who, named(key, "group"), num_groups), state

    return marked(Draw(lambda key, n: (), apply, num_groups), num_byzantine)


def _in_groups(who: Cohort, key: Key, num_groups: int) -> Cohort:
    """Puts clients into groups by a random permutation. If each client is alone, groups keep the clients' order.

    A rule may trust the row of a certain client, so that its group must be known.
    """
    if num_groups == 1:
        return who
    if num_groups == who.client.size:
        return who._replace(group=jnp.arange(num_groups))
    return who._replace(group=jax.random.permutation(key, who.client.size) % num_groups)


def sample(size: int, num_groups: int = 1, *, num_byzantine: Byzantine = 0) -> Draw:
    """`size` clients per round, uniformly without replacement, in ascending order (McMahan et al. 2017, Algorithm 1).

    Time and memory grow with `size` and not with the population, except for the sum of the population's counts. The
    number of Byzantine clients in a round is random (hypergeometric), see `theory.byzantine_cohorts`.

    Args:
      size: clients of a round.
      num_groups: number of groups of a round, as in `everyone`.
      num_byzantine: clients 0 to `num_byzantine - 1` of the population are Byzantine; or a mask of the Byzantine
        clients, bool `[n]`.

    Raises:
      ValueError: `size` or `num_groups` is not an integer >= 1; `num_byzantine` is neither an integer >= 0 nor a mask;
        or, when the round is traced, `size` or `num_byzantine` exceeds the population or the mask has another length.

    Examples:
      >>> draw = sample(3)
      >>> state = draw.init(jax.random.key(0), 10)
      >>> cohort, state = draw.apply(jax.random.key(0), state, jnp.array(0), jnp.ones(10, int))
      >>> print(cohort.client.shape)
      (3,)
    """
    _validate.integer(size=size, num_groups=num_groups)

    def apply(key: Key, state: tuple, round: Int[Array, ""], count: Counts) -> tuple[Cohort, tuple]:
        if size > count.size:
            raise ValueError(
                f"size (cohort_size of a system) must be at most the number of clients, {count.size}, got {size}"
            )
        who = cohort_of(uniform_subset(named(key, "sample"), size, count.size), round, count)
        return _in_groups(who, named(key, "group"), num_groups), state

    return marked(Draw(lambda key, n: (), apply, num_groups), num_byzantine)


def scheduled(members: ArrayLike) -> Draw:
    """The clients that a table lists for each round.

    Args:
      members: `[rounds, size]`, client numbers, strictly increasing in each row; after the last round the table
        repeats.

    Raises:
      ValueError: `members` is not a table of integers >= 0 that increase along its rows or, when the round is traced,
        it lists a client outside the population.

    Examples:
      >>> draw = scheduled(np.array([[0, 1], [2, 3]]))
      >>> cohort, state = draw.apply(jax.random.key(0), draw.init(jax.random.key(0), 4), jnp.array(1), jnp.ones(4, int))
      >>> print(cohort.client)
      [2 3]
    """
    try:
        table = np.asarray(members)
    except ValueError:  # rows of different lengths
        table = np.empty(0)
    whole = table.ndim == 2 and table.size > 0 and table.dtype.kind in "iu"
    if not whole or (table < 0).any() or (np.diff(table.astype(np.int64), axis=1) <= 0).any():
        got = _validate.in_one_line(members)
        raise ValueError(f"members must be a table of integers >= 0 that increase along its rows, got {got}")

    def apply(key: Key, state: tuple, round: Int[Array, ""], count: Counts) -> tuple[Cohort, tuple]:
        if table.max() >= count.size:
            raise ValueError(f"members must be below the number of clients, {count.size}, got {table.max()}")
        return cohort_of(jnp.asarray(table, jnp.int32)[round % len(table)], round, count), state

    return Draw(lambda key, n: (), apply)


def independent(probability: Callable[..., ArrayLike], fading: Fading | None = None) -> Draw:
    """Each client joins independently.

    Args:
      probability: `(round, gain [n]) -> p`, with the gains that clients know; one p for all clients or `[n]`. A p
        outside [0, 1] becomes NaN, and the round fails if the system divides by it.
      fading: gains of the clients' links, whose state is the state of this draw; None: all 1.

    Raises:
      ValueError: `fading` is not a `channels.Fading`, or `probability` no function of two arguments.

    Examples:
      >>> draw = independent(lambda round, gain: jnp.where(round < 10, 0.5, 0.1))
    """
    fading = constant() if fading is None else fading
    _validate.part(Fading, "channels.rayleigh()", fading=fading)
    _validate.takes("round, gain", probability=probability)

    def apply(key: Key, state: PyTree, round: Int[Array, ""], count: Counts) -> tuple[Cohort, PyTree]:
        who = cohort_of(jnp.arange(count.size), round, count)
        gain, coefficient, state = known_gains(fading, key, state, round, count.size)
        p = jnp.broadcast_to(jnp.asarray(probability(round, gain), jnp.float32), who.client.shape)
        joins = per_client(jax.random.uniform, named(key, "join"), who.client) < p
        p = jnp.where((p >= 0) & (p <= 1), p, jnp.nan)
        return who._replace(selected=joins, gain=gain, participation=p, coefficient=coefficient), state

    return Draw(lambda key, n: fading.init(named(key, "fading"), n), apply, knowledge=fading.knowledge)


def bernoulli(participation: ArrayLike | Callable[[Array], ArrayLike], *, fading: Fading | None = None) -> Draw:
    """Each client joins independently of its channel (wireless FedSGD: uniform sampling).

    Args:
      participation: probability in [0, 1], one for all clients or `[n]`, above 0 for at least one client; or a function
        of the round, from 0, that returns it (time-variant sampling), and may be 0 in some rounds. May be traced.
      fading: gains of the clients' links; None: all 1.

    Raises:
      ValueError: a probability is outside [0, 1] or all are 0, or (by `init`) the number of probabilities is neither 1
        nor n.

    Examples:
      >>> draw = bernoulli(0.1)  # of however many clients the data have
    """
    if callable(participation):
        return independent(lambda round, gain: participation(round), fading)
    _validate.chances(participation=participation)
    draw = independent(lambda round, gain: participation, fading)

    def init(key: Key, n: int) -> PyTree:
        _validate.per_client(n, participation=participation)
        return draw.init(key, n)

    return draw._replace(init=init)


def channel_aware(threshold: float | Array, fading: Fading) -> Draw:
    """Clients with good channels join more often: `p_k = min(1, h_k / h_th)`, independently (wireless FedSGD).

    Args:
      threshold: h_th, > 0; clients with `h_k >= h_th` always join. May be traced.
      fading: gains of the clients' links.

    Raises:
      ValueError: `threshold` is not > 0.

    Examples:
      >>> draw = channel_aware(0.5, fedjax_priv.channels.rayleigh())
    """
    threshold = _validate.positive(threshold=threshold)
    return independent(lambda round, gain: jnp.minimum(1.0, quotient(gain, threshold)), fading)


def only_if(draw: Draw, left: Callable[[Cohort], Array]) -> Draw:
    """The same draw without clients for which `left(cohort) [n]`, such as remaining power, is not above 0.

    Everybody knows which clients these are. Their p_k is 0, or NaN if `left` is NaN.

    Raises:
      ValueError: `draw` is no `Draw`, or `left` no function of one argument.

    Examples:
      >>> draw = only_if(everyone(), lambda cohort: cohort.gain - 0.5)  # those whose gain is above 0.5
    """
    _validate.part(Draw, "clients.everyone()", draw=draw)
    _validate.takes("cohort", left=left)

    def apply(key: Key, state: PyTree, round: Int[Array, ""], count: Counts) -> tuple[Cohort, PyTree]:
        who, state = draw.apply(key, state, round, count)
        margin = left(who)
        who = only_those(who, margin > 0)
        return who._replace(participation=jnp.where(jnp.isnan(margin), jnp.nan, who.participation)), state

    return draw._replace(apply=apply)

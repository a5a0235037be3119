"""Who masks with whom, and who holds whose shares: the users of a group stand on a circle.

On the complete graph all others are peers (Bonawitz et al., CCS 2017). On the k-regular graph the order is random and
the k nearest are peers (Bell et al., CCS 2020, a Harary graph). Neither needs an adjacency matrix.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int32

from fedjax_priv.base import Cohort, Key

CONNECTED = "if honest survivors are connected in the graph of neighbours, see theory.secagg_plus"
"""Under which masks among neighbours hide all but the sum."""


class Circle(NamedTuple):
    """Where the selected users of each group stand; those that are not selected stand behind them, outside."""

    order: Int[Array, " n"]  # slots sorted by group
    place: Int[Array, " n"]  # where a slot stands in `order`
    start: Int[Array, " n"]  # where its group starts in `order`
    members: Int32[Array, " n"]  # selected users of its group


class Peers(NamedTuple):
    """The peers of a user by distance on the circle, itself the first."""

    slot: Int[Array, " m"]
    there: Bool[Array, " m"]  # whether the place is taken; a group may be smaller than the graph was made for
    back: Int[Array, " m"]  # where the user stands among the peers of that peer


def arrange(cohort: Cohort, key: Key | None = None) -> Circle:
    """The users in the order of their slots, or in random order."""
    n = cohort.group.size
    tie = jnp.zeros(n, jnp.uint32) if key is None else jax.random.bits(key, (n,), jnp.uint32)
    order = jnp.lexsort((tie, ~cohort.selected, cohort.group))
    place = jnp.zeros_like(order).at[order].set(jnp.arange(n))
    start = jax.ops.segment_min(place, cohort.group, n)[cohort.group]
    return Circle(order, place, start, in_group(cohort.selected, cohort.group))


def in_group(members: Bool[Array, " n"], group: Int[Array, " n"]) -> Int32[Array, " n"]:
    """How many of the members are in each user's group."""
    return jax.ops.segment_sum(members.astype(jnp.int32), group, group.size)[group]


def peers(circle: Circle, slot: Int[Array, ""], most: int) -> Peers:
    """The `most - 1` users nearest to one, as many on either side, and itself; all of a group that has no more."""
    place, members = circle.place[slot] - circle.start[slot], jnp.maximum(circle.members[slot], 1)
    number = jnp.arange(most)
    far = members > most
    away = jnp.where(far & (number > most // 2), number - most, number)
    back = jnp.where(far, most - number, members - number) % jnp.where(far, most, members)
    taken = (number < members) & (place < members)
    return Peers(circle.order[circle.start[slot] + (place + away) % members], taken, back)

"""The parts of one system, as the stages of a round are given them, and what makes them fit each other and the data."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import optax
from jaxtyping import PyTree

from fedjax_priv.base import (
    Aggregator,
    Channel,
    ClientData,
    Cohort,
    Combine,
    Draw,
    Layer,
    Local,
    Placement,
    RoundState,
    View,
)


class Parts(NamedTuple):
    """The arguments of `federated_round`, checked."""

    cohort: Draw
    local: Local
    layers: Layer  # computed where `placement` says
    combine: Combine  # that of `layers`
    channel: Channel
    aggregate: Aggregator
    server: optax.GradientTransformation
    num_clients: int | None
    placement: Placement
    observe: Callable[[View], PyTree] | None


def combine_of(layers: Layer, cohort: Draw, channel: Channel) -> Combine:
    """How uploads become rows.

    Raises:
      ValueError: `layers` do not say so, combine another number of groups than `cohort` draws, or need a count of
        uploads that `channel` hides.
    """
    combine = layers.combine
    if combine is None:
        raise ValueError("layers must end in one that says how uploads combine, such as plain() or pairwise_masks()")
    if cohort.num_groups != combine.num_groups:
        raise ValueError(
            f"cohort must draw as many groups as layers combine, {combine.num_groups}, got {cohort.num_groups}"
        )
    if layers.needs_count and channel.hides_count:
        raise ValueError("layers must not need the number of uploads, which channel hides (known_count=False)")
    return combine


def check_clients(data: ClientData, num_clients: int | None) -> None:
    """The data are of as many clients as the parts."""
    n = data.count.shape[0]
    if num_clients not in (None, n):
        raise ValueError(f"num_clients must be the number of clients in data, {n}, got {num_clients}")


def check_size(d: int) -> None:
    """The bits of a model fit in uint32."""
    if 32 * (d + 1) >= 2**32:
        raise ValueError(f"params must have fewer than {2**27 - 1} elements, as bits are counted in uint32, got {d}")


def check_rows(state: RoundState, who: Cohort, data: ClientData) -> None:
    """Client state and samples have a row for everyone, or for the cohort in its order."""
    n, k = data.count.shape[0], who.client.shape[0]
    for name, tree in (("state", (state.memory, state.layers)), ("data", data.examples)):
        for rows in jax.tree.leaves(tree):
            if rows.shape[0] not in (n, k):
                raise ValueError(f"{name} must be of as many clients as data has, {n}, got {rows.shape[0]}")


def check_uploads(who: Cohort, combine: Combine) -> None:
    """The sum can hold the uploads of the whole cohort."""
    most = combine.max_uploads
    if most is not None and who.client.size > most:
        raise ValueError(f"cohort must hold at most {most} clients for an exact sum, got {who.client.size}")

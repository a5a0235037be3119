"""Clients that open a sum for all: who they are, what they hold of each client, and what it costs to ask them."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import Key, Link, Placement
from fedjax_priv.crypto import field, matrix
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.keys import per_client
from fedjax_priv.layers.secure_sum.private_links import delivered
from fedjax_priv.layers.secure_sum.public_factors import times


class Roster(NamedTuple):
    """What everybody knows once a round is open."""

    round: Int[Array, " n"]
    selected: Bool[Array, " n"]
    member: Int[Array, " c"]  # rows of those that open the sum
    factor: PyTree = ()  # uint32 [n], what uploads are multiplied by before they are added; (): 1
    place: PyTree = ()  # int32 [n], which share of each mask a client holds, where that is not its row


def sizes(group_size: int, committee: int | None, threshold: int | None, fewest: int | None) -> tuple[int, int, int]:
    """Checked arguments: members, those that open a sum, and uploads below which no member answers.

    If not given, these are 10 or all of the group, more than half of the committee, and more than half of the group.

    Raises:
      ValueError: a size below 2, or above what it is a part of.
    """
    committee = min(10, group_size) if committee is None else committee
    _validate.integer(at_least=2, committee=committee)
    at_most(group_size, "group_size", committee=committee)
    at_most(matrix.MAX_TERMS, "the terms of an exact product", committee=committee)
    threshold = committee // 2 + 1 if threshold is None else threshold
    _validate.integer(at_least=2, threshold=threshold)
    at_most(committee, "committee", threshold=threshold)
    fewest = group_size // 2 + 1 if fewest is None else fewest
    _validate.integer(at_least=2, fewest=fewest)
    at_most(group_size, "group_size", fewest=fewest)
    return committee, threshold, fewest


def at_most(most: int, of: str, **values: int) -> None:
    """Raises ValueError for a value above `most`, of which the message says what it is."""
    for name, value in values.items():
        if value > most:
            raise ValueError(f"{name} must be at most {of} = {most}, got {value}")


def elected(key: Key, selected: Bool[Array, " n"], size: int) -> Int[Array, " c"]:
    """Ideal election: everybody knows the same `size` clients of the round, drawn uniformly, whoever is corrupt.

    A deployment draws them by a public random string or by verifiable random functions. That is neither run nor counted
    in bits. Clients that are not selected come last; they never answer.
    """
    word = jax.random.bits(key, selected.shape, jnp.uint32) >> 1
    return jnp.argsort(jnp.where(selected, word, jnp.uint32(2**32 - 1)))[:size]


def check_cohort(n: int, group_size: int, **fewest: int) -> None:
    """Raises ValueError unless a cohort of `n` has at most `group_size` clients and at least `fewest`, by its name."""
    if n > group_size:
        raise ValueError(f"group_size must be at least the size of the cohort, {n}, got {group_size}")
    for name, least in fewest.items():
        if n < least:
            raise ValueError(f"{name} must be at most the size of the cohort, {n}, got {least}")


def own_seeds(key: Key, client: Int[Array, " n"], words: int = 2) -> UInt32[Array, "n w"]:
    """A seed of every client, from which it recomputes all it draws in a round."""
    return per_client(lambda key: jax.random.bits(key, (words,), jnp.uint32), key, client)


def sums_held(
    shares: Callable[..., PyTree],
    shared: PyTree,
    rows: tuple[PyTree, ...],
    alive: Bool[Array, " n"],
    row_bytes: int,
    placement: Placement,
    factor: PyTree = (),
) -> PyTree:
    """For each member the sum of what it holds of the survivors; field elements `[...]`.

    Args:
      shares: `(shared, *rows [b, ...]) -> uint32 [b, ...]`, field elements that each client has sent, such as
        `[b, c, l]` to members.
      shared: what every block gets whole.
      rows: of the clients, from which shares are recomputed.
      alive: the survivors.
      row_bytes: what `shares` holds for a client, about.
      placement: blocks and devices.
      factor: uint32 `[n]`, what is multiplied with all that a client has sent; (): 1.
    """

    def run(shared: PyTree, valid: Array, counts: Array, factor: PyTree, *rows: PyTree) -> tuple:
        mine = times(only_rows(valid & counts, delivered(shares(shared, *rows))), factor)
        halves = lambda a: tuple(half.sum(0, dtype=jnp.uint32) for half in field.split(a))
        return [halves(a) for a in jax.tree.leaves(mine)], ()

    halves, _ = over_clients(run, shared, (alive, factor, *rows), row_bytes=row_bytes, **placement._asdict())
    structure = jax.tree.structure(jax.eval_shape(shares, shared, *rows))
    return jax.tree.unflatten(structure, [field.join(*pair) for pair in halves])


def asked(roster: Roster, up: Array, down: Array) -> Link:
    """Bits of each client's link for what members send and are sent, `[c]` each."""
    nobody = jnp.zeros(roster.selected.shape, jnp.uint32)
    return Link(nobody.at[roster.member].set(up), nobody.at[roster.member].set(down))

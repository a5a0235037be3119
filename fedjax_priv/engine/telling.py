"""What an aggregator tells clients with the model: what of it is counted, and what runs record."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv.base import Aggregator


def told_by(aggregate: Aggregator, state: PyTree) -> Mapping[str, PyTree]:
    """Name -> what clients are told of the state that a round begins with; empty: the model alone.

    Raises:
      ValueError: it is no mapping, or has other numbers than float32, of which bits down are counted.
    """
    if aggregate.tells is None:
        return {}
    told = aggregate.tells(state)
    if not isinstance(told, Mapping):
        raise ValueError(f"aggregate must tell clients a mapping by name, got {type(told).__name__}")
    for name, tree in told.items():
        if other := {str(jnp.result_type(a)) for a in jax.tree.leaves(tree)} - {"float32"}:
            raise ValueError(f"aggregate must tell clients float32, got {', '.join(sorted(other))} as {name!r}")
    return told


def total_size(told: Mapping[str, PyTree]) -> int:
    """How many numbers go down to each client with the model."""
    return sum(jnp.size(a) for a in jax.tree.leaves(dict(told)))


def single_numbers(told: Mapping[str, PyTree]) -> dict[str, Array]:
    """What a run records of it, round by round: what is one number. Vectors would take as much room as the models."""
    return {name: tree for name, tree in told.items() if jax.tree_util.all_leaves([tree]) and jnp.ndim(tree) == 0}

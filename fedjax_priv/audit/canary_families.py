"""Canaries that differ in numbers alone: the runs with all of them are one program, which is compiled once."""

from collections.abc import Hashable, Iterable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from fedjax_priv.audit.worlds import Canary


def families(canaries: Iterable[Canary]) -> list[list[int]]:
    """The numbers of canaries that are one program, in order."""
    found: dict[Hashable, list[int]] = {}
    for number, canary in enumerate(canaries):
        found.setdefault(_program(canary) or number, []).append(number)
    return list(found.values())


def in_one_form(family: Sequence[Canary]) -> list[Canary]:
    """The canaries of a family with inputs of one shape, which say whether client 0 falls silent, and one training."""
    if len(family) == 1:
        return [*family]
    base, variants = family[0].whole or family[0], max(one.variants or 1 for one in family)
    assert base.silenced is not None
    assert all(one.variants in (None, variants) for one in family)
    silenced = base.silenced
    local = lambda given: silenced(base.local(given[0]), given[1])
    data = lambda given: base.data(given[0])

    def form(canary: Canary) -> Canary:
        silent = jnp.full(variants, canary.whole is not None)
        first, second = ((_by_variant(canary, given, variants), silent) for given in canary.inputs)
        return canary._replace(inputs=(first, second), local=local, data=data, variants=variants, whole=None)

    return [form(canary) for canary in family]


def in_first_round(canary: Canary) -> Canary:
    """The same canary, but client 0 says nothing of it in all rounds after the first."""
    assert canary.silenced is not None
    silenced = canary.silenced
    return canary._replace(local=lambda given: silenced(canary.local(given), True), whole=canary)


def _program(canary: Canary) -> Hashable:
    """Equal for canaries of one program; None if no other canary is of it."""
    if canary.silenced is None:
        return None
    base, own = canary.whole or canary, 0 if canary.variants is None else 1
    shapes = [(leaf.shape[own:], leaf.dtype) for leaf in jax.tree.leaves(canary.inputs)]
    return base.local, base.data, *shapes


def _by_variant(canary: Canary, given: PyTree, variants: int) -> PyTree:
    """The input `[v, ...]`; every variant is the same where the canary has none."""
    if canary.variants is not None:
        return given
    repeat = lambda rows: jnp.broadcast_to(rows, (variants, *jnp.shape(rows)))
    return jax.tree.map(repeat, given)

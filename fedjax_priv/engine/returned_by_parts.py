"""Checks of what the functions of parts return while a round is traced: an error names the function and both shapes."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv import _validate, base


def check_training(made: Any, b: int, memory: PyTree) -> tuple[Array, PyTree, Array]:
    """Checks what `local.apply` returned for a block of `b` clients with `memory` `[b, ...]`.

    Updates may be wider than the model: control variates and what a rule is told travel behind them. They become
    float32, whatever type they had.

    Raises:
      ValueError: it is no triple, updates or losses have other shapes, or the next memory has other arrays.
    """
    _validate.returned(3, "updates [b, d], memory, losses [b]", **{"local.apply": made})
    update, after, loss = made
    for rows, name, ndim in ((update, "updates [b, d]", 2), (loss, "losses [b]", 1)):
        if not hasattr(rows, "dtype") or rows.ndim != ndim or rows.shape[0] != b:
            raise ValueError(f"local.apply must return {name} with b = {b}, got {_validate.made(rows)}")
    if (got := arrays(after)) != (old := arrays(memory)):
        raise ValueError(f"local.apply must return a memory of the arrays it was given, {old}, got {got}")
    return update.astype(jnp.float32), after, loss


def check_carried(carried: PyTree, b: int, population: PyTree) -> None:
    """Checks the next state of the layers of a block of `b` clients; `population` `[n, ...]` is the state of all.

    Raises:
      ValueError: it has other arrays than `init` made.
    """
    old = arrays(jax.tree.map(lambda a: jax.ShapeDtypeStruct((b, *jnp.shape(a)[1:]), jnp.result_type(a)), population))
    for after in _either(carried):
        if (got := arrays(after)) != old:
            part, wanted, found = _first_that_differs(old, got)
            raise ValueError(
                f"{part}encode must return a state of the arrays of its init, for {b} clients {wanted}, got {found}"
            )


def check_transmitted(made: Any, who: base.Cohort) -> tuple[PyTree, Array]:
    """Checks what `channel.transmit` returned for a block of clients; who takes no part has sent nothing.

    Raises:
      ValueError: it is no pair, uploads have another number of rows, or `alive` is no bool for each.
    """
    _validate.returned(2, "y [b, ...], alive [b]", **{"channel.transmit": made})
    (y, alive), b = made, who.client.size
    if wrong := [jnp.shape(rows) for rows in jax.tree.leaves(y) if jnp.shape(rows)[:1] != (b,)]:
        raise ValueError(f"channel.transmit must return a row for each of the {b} clients of a block, got {wrong[0]}")
    return y, check_bools("channel.transmit", "alive", alive, b) & who.selected


def check_bools(name: str, what: str, made: Any, n: int) -> Array:
    """Checks that a function returned a bool for each of `n` clients.

    Raises:
      ValueError: it did not.
    """
    if not hasattr(made, "dtype") or made.dtype != jnp.bool_ or made.shape != (n,):
        got = f"{made.dtype}{[*made.shape]}" if hasattr(made, "dtype") else type(made).__name__
        raise ValueError(f"{name} must return {what} as bool[{n}], got {got}")
    return jnp.asarray(made)


def check_received(name: str, made: Any) -> base.Received:
    """Checks that a function returned what the server received.

    Raises:
      ValueError: it returned something else.
    """
    if not isinstance(made, base.Received):
        example = "such as received._replace(value=...)"
        raise ValueError(f"{name} must return a Received, {example}, got {_validate.made(made)}")
    return made


def check_direction(made: Any, d: int, state: PyTree) -> tuple[Any, PyTree]:
    """Checks what the `apply` of an aggregator returned in a round that began with `state`.

    Raises:
      ValueError: it is no pair, the direction has another shape than `[d]`, or the next state has other arrays.
    """
    if not isinstance(made, tuple) or len(made) != 2:
        raise ValueError(f"aggregate must return a pair, a direction [d] and its state, got {_validate.made(made)}")
    if (shape := jnp.shape(made[0])) != (d,):
        raise ValueError(f"aggregate must return a direction of shape ({d},), one number per parameter, got {shape}")
    for after in _either(made[1]):
        if (got := arrays(after)) != (old := arrays(state)):
            raise ValueError(f"aggregate must return a state of the arrays of its init, {old}, got {got}")
    return made


def arrays(tree: PyTree) -> PyTree:
    """Types and shapes of a tree, to compare and to print."""
    return jax.tree.map(lambda a: f"{jnp.result_type(a)}{[*jnp.shape(a)]}", tree)


def _either(state: PyTree) -> list[PyTree]:
    """What a state may become that holds `Kept`: one tree for each case."""

    def of(case: str) -> PyTree:
        def chosen(node: PyTree) -> PyTree:
            if not isinstance(node, base.Kept):
                return node
            return node.lost if (found := getattr(node, case)) is None else found

        return jax.tree.map(chosen, state, is_leaf=lambda node: isinstance(node, base.Kept))

    return [of(case) for case in base.Kept._fields]


def _first_that_differs(old: PyTree, new: PyTree) -> tuple[str, PyTree, PyTree]:
    """The layer of a stack whose state has other arrays, as a prefix, and both."""
    if isinstance(old, Mapping) and isinstance(new, Mapping) and old.keys() == new.keys():
        name = next(name for name in old if old[name] != new[name])
        return f"{name}.", old[name], new[name]
    return "layers.", old, new

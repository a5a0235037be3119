"""A step of the server's optimizer: an error says what it lacks, or what it returned."""

import functools
import traceback
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.engine.calls import calling
from fedjax_priv.engine.returned_by_parts import arrays


def first_state(server: optax.GradientTransformation, params: PyTree) -> PyTree:
    """The optimizer's state before the first round; a step is traced, so that one that does not fit fails here.

    Raises:
      ValueError: as `server_step`.
    """
    with calling("server.init", params=params):
        state = server.init(params)
    jax.eval_shape(functools.partial(server_step, server), params, state, params)
    return state


def server_step(
    server: optax.GradientTransformation, direction: PyTree, state: PyTree, params: PyTree
) -> tuple[PyTree, PyTree]:
    """The parameters after a step along a direction, and the optimizer's next state.

    Args:
      server: an optimizer of optax, which is given no value of the loss.
      direction: in place of a gradient, a tree like `params`.
      state: of the optimizer.
      params: float32 leaves.

    Raises:
      ValueError: the optimizer needs more than the direction and the parameters, or returns no pair, updates of other
        shapes than the parameters, or a state of other arrays.
    """
    with calling("server.update", direction=direction):
        try:
            made = server.update(direction, state, params)
        except Exception as error:
            if (asks := _asks_for_more(error, state)) is None:
                raise
            raise ValueError(
                f"server must be an optimizer that needs the direction and the parameters alone, got one that {asks}"
            ) from error
    _validate.returned(2, "updates, state", **{"server.update": made})
    delta, after = made
    if (got := _shapes(delta)) != (wanted := _shapes(params)):
        raise ValueError(
            f"server.update must return updates in the shapes of the parameters, {wanted[1]}, got {got[1]}"
        )
    if jax.tree.flatten(got := arrays(after)) != jax.tree.flatten(old := arrays(state)):
        raise ValueError(f"server.update must return a state of the arrays of its init, {old}, got {got}")
    return optax.apply_updates(params, delta), after


def _asks_for_more(error: Exception, state: PyTree) -> str | None:
    """How an optimizer asks for more than a direction and parameters, by its error; None: that is another error."""
    is_lookahead = lambda node: isinstance(node, optax.LookaheadState)
    if any(map(is_lookahead, jax.tree.leaves(state, is_leaf=is_lookahead))):
        return "also needs optax.LookaheadParams: a second model, which clients do not train"
    _, needs, names = str(error).partition("required keyword-only argument")
    if needs and isinstance(error, TypeError):
        return f"also needs {names.partition(': ')[2]}"
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    by_optax = frame.f_globals.get("__name__", "").startswith("optax.")
    return f"raises {type(error).__name__}: {error}" if by_optax else None


def _shapes(tree: PyTree) -> tuple[Any, list[tuple[int, ...]]]:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [jnp.shape(leaf) for leaf in leaves]

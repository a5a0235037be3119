"""A `Model` from a flax nnx module."""

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, PyTree

from fedjax_priv.base import Key, Model


def from_nnx(make: Callable[[Any], Any]) -> Model:
    """Model of a flax nnx module, such as `from_nnx(lambda rngs: nnx.Linear(64, 10, rngs=rngs))`.

    Its parameters are the module's `nnx.Param`s, as a plain nested dict of arrays.

    Args:
      make: from `nnx.Rngs` to the module, which is called on `[b, ...]`, float32, and returns logits `[b, classes]`.

    Raises:
      ValueError: the module has variables other than parameters and random keys: running statistics would be client
        state that is neither averaged nor private. Use a normalisation without them, such as `nnx.GroupNorm` or
        `nnx.LayerNorm`.
    """
    from flax import nnx

    def parts(key: Key) -> tuple[Any, Any, Any]:
        module = make(nnx.Rngs(key))
        graph, params, keys, rest = nnx.split(module, nnx.Param, nnx.RngState, ...)
        if jax.tree.leaves(rest):
            kinds = sorted({type(variable).__name__ for _, variable in nnx.to_flat_state(rest)})
            raise ValueError(
                f"make must return a module without running statistics, got variables of type {', '.join(kinds)}: "
                "normalise by nnx.GroupNorm or nnx.LayerNorm"
            )
        return graph, params, keys

    graph, structure, keys = parts(jax.random.key(0))

    def apply(params: PyTree, x: Array) -> Array:
        state = nnx.clone(structure)
        nnx.replace_by_pure_dict(state, params)
        return nnx.merge(graph, state, keys)(x)

    return Model(lambda key: nnx.to_pure_dict(parts(key)[1]), apply)

"""A `Model` from a flax nnx module."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Key, Model


def from_nnx(make: Callable[[Any], Any]) -> Model:
    """Model of a flax nnx module, such as `from_nnx(lambda rngs: nnx.Linear(64, 10, rngs=rngs))`.

    Its parameters are the module's `nnx.Param`s, as a plain nested dict of arrays. A module that holds random keys, as
    dropout does, gets new ones for each example in training. In evaluation submodules are `deterministic`, if they have
    such an attribute; one that draws without it draws from the same keys in every call.

    Args:
      make: from `nnx.Rngs` to the module, which is called on `[b, ...]`, float32, and returns logits `[b, classes]`.

    Raises:
      ValueError: `make` is no function of `nnx.Rngs`, such as a module, or does not return a callable module; or its
        module has variables other than parameters and random keys: running statistics would be client state that is
        neither averaged nor private. Use a normalisation without them, such as `nnx.GroupNorm` or `nnx.LayerNorm`.

    Examples:
      >>> from flax import nnx
      >>> model = from_nnx(lambda rngs: nnx.Linear(64, 10, rngs=rngs))
      >>> num_params(jax.eval_shape(model.init, jax.random.key(0)))
      650
    """
    from flax import nnx

    if isinstance(make, nnx.Module):
        example = f"lambda rngs: {type(make).__name__}(rngs=rngs)"
        raise ValueError(f"make must be a function from nnx.Rngs to a module, such as {example}, got a module")
    _validate.function(1, "lambda rngs: nnx.Linear(64, 10, rngs=rngs)", make=make)

    def parts(key: Key) -> tuple[Any, Any, Any]:
        module = make(nnx.Rngs(key))
        if not isinstance(module, nnx.Module) or not callable(module):
            raise ValueError(f"make must return a callable nnx module, got {type(module).__name__}")
        graph, params, keys, rest = nnx.split(module, nnx.Param, nnx.RngState, ...)
        if jax.tree.leaves(rest):
            kinds = sorted({type(variable).__name__ for _, variable in nnx.to_flat_state(rest)})
            raise ValueError(
                f"make must return a module without running statistics, got variables of type {', '.join(kinds)}: "
                "normalise by nnx.GroupNorm or nnx.LayerNorm"
            )
        return graph, params, keys

    graph, structure, keys = parts(jax.random.key(0))
    draws = bool(jax.tree.leaves(keys))  # as dropout does
    view = functools.partial(nnx.view, raise_if_not_found=False)  # keys may belong to something else than dropout

    def module(params: PyTree, keys: Any) -> Any:
        state = nnx.clone(structure)
        nnx.replace_by_pure_dict(state, params)
        return nnx.merge(graph, state, keys, copy=True)  # calls count their draws in it

    def apply(params: PyTree, x: Array) -> Array:
        made = module(params, keys)
        return (view(made, deterministic=True) if draws else made)(x)

    def train(params: PyTree, x: Array, keys_of_rows: Array) -> Array:
        def one(row: Array, key: Array) -> Array:
            return view(module(params, _rekeyed(keys, key)), deterministic=False)(row[None])[0]

        return jax.vmap(one)(x, keys_of_rows)

    return Model(jax.jit(lambda key: nnx.to_pure_dict(parts(key)[1])), apply, train if draws else None)


def _rekeyed(state: PyTree, key: Key) -> PyTree:
    """The same streams of random numbers from another key, each from its own."""
    leaves, structure = jax.tree.flatten(state)
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return structure.unflatten(jax.random.fold_in(key, i) if is_key(leaf) else leaf for i, leaf in enumerate(leaves))

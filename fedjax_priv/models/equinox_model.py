"""A `Model` from an equinox module."""

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, PyTree

from fedjax_priv.base import Key, Model


def from_equinox(make: Callable[[Key], Any]) -> Model:
    """Model of an equinox module, such as `from_equinox(lambda key: eqx.nn.MLP(64, 10, 32, 1, key=key))`.

    Its parameters are the module's float arrays; `eqx.combine(params, make(key))` is a module again.

    Args:
      make: from a key to the module, which is called on one example, float32, and returns logits `[classes]`; in
        training also with `key=`, if it has an `eqx.nn.Dropout`. Only its float arrays may depend on the key.

    Raises:
      ImportError: equinox is not installed.
      ValueError: `make` is a module and not a function, or does not return a callable module.
        `eqx.nn.make_with_state` does not: running statistics would be client state that is neither averaged nor
        private.

    Examples:
      >>> import equinox as eqx
      >>> model = from_equinox(lambda key: eqx.nn.Linear(64, 10, key=key))
      >>> num_params(jax.eval_shape(model.init, jax.random.key(0)))
      650
    """
    try:
        import equinox as eqx  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("equinox modules need the package equinox: pip install fedjax-priv[equinox]") from error

    if isinstance(make, eqx.Module):
        name = type(make).__name__
        raise ValueError(
            f"make must be a function from a key to a module, lambda key: {name}(..., key=key), got a module"
        )

    def parts(key: Key) -> tuple[PyTree, PyTree]:
        module = make(key)
        if not isinstance(module, eqx.Module) or not callable(module):
            raise ValueError(f"make must return a callable equinox module, got {type(module).__name__}")
        return eqx.partition(module, eqx.is_inexact_array)

    rest = parts(jax.random.key(0))[1]
    is_dropout = lambda node: isinstance(node, eqx.nn.Dropout)
    draws = any(map(is_dropout, jax.tree.leaves(rest, is_leaf=is_dropout)))

    def apply(params: PyTree, x: Array) -> Array:
        return jax.vmap(eqx.nn.inference_mode(eqx.combine(params, rest)))(x)

    def train(params: PyTree, x: Array, keys: Array) -> Array:
        return jax.vmap(lambda row, key: eqx.combine(params, rest)(row, key=key))(x, keys)

    return Model(lambda key: parts(key)[0], apply, train if draws else None)

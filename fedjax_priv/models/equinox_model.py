"""A `Model` from an equinox module."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Key, Model


def from_equinox(make: Callable[[Key], Any]) -> Model:
    """Model of an equinox module, such as `from_equinox(lambda key: eqx.nn.MLP(64, 10, 32, 1, key=key))`.

    Its parameters are the module's float arrays; `eqx.combine(params, make(key))` is a module again.

    Args:
      make: from a key to the module, which is called on one example, float32, and returns logits `[classes]`; in
        training also with `key=`, if it has an `eqx.nn.Dropout` that draws: its `p` is above 0 and its `inference` is
        False. Only its float arrays may depend on the key.

    Raises:
      ImportError: equinox is not installed.
      ValueError: `make` is no function of a key, such as a module, or does not return a callable module.
        `eqx.nn.make_with_state` does not: running statistics would be client state that is neither averaged nor
        private. Or its module has a dropout that draws, and its call takes no `key=`.

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
    _validate.function(1, "lambda key: eqx.nn.MLP(64, 10, 32, 1, key=key)", make=make)

    def parts(key: Key) -> tuple[PyTree, PyTree]:
        module = make(key)
        if not isinstance(module, eqx.Module) or not callable(module):
            raise ValueError(f"make must return a callable equinox module, got {type(module).__name__}")
        return eqx.partition(module, eqx.is_inexact_array)

    params, rest = parts(jax.random.key(0))
    is_dropout = lambda node: isinstance(node, eqx.nn.Dropout)
    nodes = jax.tree.leaves(rest, is_leaf=is_dropout)
    draws = any(is_dropout(node) and not node.inference and node.p != 0 for node in nodes)
    if draws:
        _check_takes_a_key(eqx.combine(params, rest))

    def apply(params: PyTree, x: Array) -> Array:
        return jax.vmap(eqx.nn.inference_mode(eqx.combine(params, rest)))(x)

    def train(params: PyTree, x: Array, keys: Array) -> Array:
        return jax.vmap(lambda row, key: eqx.combine(params, rest)(row, key=key))(x, keys)

    return Model(jax.jit(lambda key: parts(key)[0]), apply, train if draws else None)


def _check_takes_a_key(module: Callable) -> None:
    try:
        inspect.signature(module).bind(None, key=None)
    except TypeError as error:
        raise ValueError(
            "make must return a module whose call takes key=, since it has an eqx.nn.Dropout that draws, got one of "
            f"{inspect.signature(module)}"
        ) from error

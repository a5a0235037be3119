"""A `Model` from a flax linen module."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.errors import InvalidRngError
from jax.typing import DTypeLike
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Key, Model


def from_flax(
    module: nn.Module,
    input_shape: tuple[int, ...],
    *,
    dtype: DTypeLike = jnp.float32,
    training: Mapping[str, Any] | None = None,
) -> Model:
    """Model of a flax module whose only variables are parameters.

    Args:
      module: called on `[b, *input_shape]`; returns logits `[b, classes]`, or `[b, length, classes]` of a sequence. Its
        parameters are float32, whatever it computes in: systems refuse a `param_dtype` of another.
      input_shape: shape of one example.
      dtype: of examples, such as int32 for tokens.
      training: further arguments of a call in training, such as `{"train": True}`, of a module with dropout, which
        then gets the key "dropout" for each example. None: training draws nothing.

    Raises:
      ValueError: an argument is of another type, a size in `input_shape` is not an integer >= 1, or (by `init`) the
        module has variables other than parameters: running statistics would be client state that is neither averaged
        nor private. Also, by `apply`, a module that draws without the arguments `training`, or that fails on examples
        of another shape than `input_shape`.

    Examples:
      >>> import flax.linen as nn
      >>> model = from_flax(nn.Dense(10), (64,))
      >>> num_params(jax.eval_shape(model.init, jax.random.key(0)))
      650
    """
    _validate.part(nn.Module, "nn.Dense(10)", module=module)
    sizes(input_shape=input_shape)
    if training is not None and not isinstance(training, Mapping):
        raise ValueError(f'training must be a dict, such as {{"train": True}}, got {training!r}')

    @jax.jit  # flax draws an array at a time, with a program for each operation
    def init(key: Key) -> PyTree:
        variables = module.init(key, jnp.zeros((1, *input_shape), dtype))
        if set(variables) != {"params"}:
            raise ValueError(f"module must have no variables but params, got {sorted(variables)}")
        return variables["params"]

    def apply(params: PyTree, x: Array) -> Array:
        try:
            return cast(Array, module.apply({"params": params}, x))
        except InvalidRngError as error:
            raise ValueError(
                "module must draw nothing in a call without further arguments, which is that of evaluation; those of a "
                'call in training go into training=, such as {"train": True}'
            ) from error
        except Exception as error:
            _check_examples(x, tuple(input_shape), jnp.dtype(dtype), error)
            raise

    def train(params: PyTree, x: Array, keys: Array) -> Array:
        def one(row: Array, key: Array) -> Array:
            return cast(Array, module.apply({"params": params}, row[None], **(training or {}), rngs={"dropout": key}))[
                0
            ]

        return jax.vmap(one)(x, keys)

    return Model(init, apply, None if training is None else train)


def _check_examples(x: Array, shape: tuple[int, ...], dtype: Any, error: Exception) -> None:
    """Raises ValueError from `error` if a module got examples of another shape, or tokens that are not integers."""
    whole = [jnp.issubdtype(kind, jnp.integer) for kind in (x.dtype, dtype)]
    if x.shape[1:] != shape or whole[0] != whole[1]:
        raise ValueError(
            f"x must have examples of input_shape {shape} and dtype {dtype}, got {x.shape[1:]} {x.dtype}"
        ) from error


def sizes(**values: Any) -> None:
    """Checks sequences of integers >= 1."""
    for name, value in values.items():
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ValueError(f"{name} must be a tuple of integers >= 1, got {value!r}")
        for size in value:
            _validate.integer(**{name: size})


def image_sizes(input_shape: Any, least: int = 1) -> None:
    """Checks the shape of an image, and that its sides are not shorter than `least`."""
    sizes(input_shape=input_shape)
    if len(input_shape) != 3 or min(input_shape[:2]) < least:
        raise ValueError(f"input_shape must be (height, width, channels), at least {least}x{least}, got {input_shape}")


def num_params(params: PyTree) -> int:
    """Number of model parameters, `d`.

    Examples:
      >>> num_params({"w": jnp.zeros((3, 2)), "b": jnp.zeros(2)})
      8
    """
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
